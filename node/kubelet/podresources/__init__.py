"""Pod resources: the socket on which agents of this node ask which pod has which devices, CPUs and memory (KEP-606)."""
