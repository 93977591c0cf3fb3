"""GPUPool: labels, DaemonSets and GPU objects of the nodes that a pool selects."""
