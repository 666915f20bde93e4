"""Container manager: which CPUs, which memory and which devices a container gets, and what bounds all pods together."""
