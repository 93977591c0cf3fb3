"""hcad: the daemon that owns the node's HCA functions, their objects and the engine."""
