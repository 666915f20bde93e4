"""In-place resize: a pod's containers get more or less CPU and memory while they run. ``plan`` decides, ``allocations``
remembers, ``actuator`` writes. Rules: KEP-1287."""
