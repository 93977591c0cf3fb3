"""RDMA policies: compiles the observed objects to tables for nodes and statuses for users."""
