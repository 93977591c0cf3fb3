"""The console: pages that show a cluster's GPUs, slices, pending pods and RDMA policies.

The console reads the cluster through watches that all viewers share, keeps the last observed state
in memory, and has no code that writes to the cluster.
"""
