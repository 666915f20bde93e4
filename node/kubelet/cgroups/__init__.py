"""Pod cgroups, by quality of service, on cgroup v1 and v2."""
