"""The ABI between RDMA libraries, hcad and its engine: control messages, queues and structures.

``header`` renders this ABI for C. The messages are framed as in the ABI of ``vgpu_sim.hal``, whose
C header is also included.
"""
