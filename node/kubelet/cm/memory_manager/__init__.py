"""Memory manager: memory and huge pages of guaranteed pods come from certain NUMA nodes, and are counted there (KEP-1769)."""
