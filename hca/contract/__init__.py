"""The contract below the RDMA libraries: control messages, queues, and the engine's structures.

``header`` writes it for C, behind that of ``vgpu_sim.hal``, whose framing the messages use.
"""
