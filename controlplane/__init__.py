"""The control plane: API server, scheduler and controllers, each only a client of the first."""
