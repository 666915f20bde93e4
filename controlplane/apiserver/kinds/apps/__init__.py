"""The apps group: workloads that run for ever."""
