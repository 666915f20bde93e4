"""Usage of nodes, pods and containers, for the server's pages and for eviction."""
