"""The hardware abstraction layer: address map, shared-memory layout, messages and ports.

Contract, not code: ``hw`` implements it, ``driver`` consumes it, ``machine`` alone knows both.
"""
