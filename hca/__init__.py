"""RDMA: a simulated host channel adapter, its daemon, and the libraries that programs load."""
