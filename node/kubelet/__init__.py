"""The node agent: wanted pods in, running containers out."""
