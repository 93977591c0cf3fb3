"""The simulated RDMA fabric: queue-pair states, addresses, and the engine that moves the data."""
