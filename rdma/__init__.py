"""Policies of RDMA as pure data: what objects say, compiled to what a node enforces. Standard
library only.
"""
