"""C that RDMA programs load: libibverbs, librdmacm, and a provider for the system's own."""
