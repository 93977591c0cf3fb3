"""C libraries that RDMA programs load, and a provider for the system's libibverbs."""
