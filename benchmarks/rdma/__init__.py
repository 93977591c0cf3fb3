"""Speed of RDMA beside memcpy and UDP, and what policies cost (``make bench-rdma``)."""
