"""Where wanted pods come from: the API server, and files on this node. One stream of additions, changes and removals."""
