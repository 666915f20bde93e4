"""What is watched, reduced to what the proxy needs, and folded into (previous, current) pairs."""
