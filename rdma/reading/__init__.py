"""Objects of Kubernetes, read strictly as far as policies of RDMA need them."""
