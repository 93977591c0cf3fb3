"""The hardware abstraction layer: address map, shared-memory layout, messages and ports.

Contract, not code: ``worker`` implements it, ``gpud`` consumes it, ``machine`` alone knows both.
"""
