"""Policies of RDMA: what was seen goes in, tables for nodes and words for users come out."""
