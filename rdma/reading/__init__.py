"""Strict readers for Kubernetes objects, limited to what RDMA policies need."""
