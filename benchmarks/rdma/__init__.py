"""Speed of RDMA compared with memcpy and UDP, and the cost of policies (``make bench-rdma``)."""
