"""Files that RDMA tools read below ``/sys/class/infiniband``."""
