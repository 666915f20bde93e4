"""Topology manager: aligns what CPU, memory and device manager allocate on NUMA nodes (KEP-693)."""
