"""``tessera rdma``."""
