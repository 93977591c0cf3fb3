"""RDMA policies as pure data: this package compiles Kubernetes objects to the tables that a node
enforces. It uses only the standard library.
"""
