"""The vocabulary of Kubernetes: pure values without I/O, asyncio or clocks. Every other room imports it."""
