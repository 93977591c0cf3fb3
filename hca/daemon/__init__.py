"""hcad: the daemon that owns the HCA's functions, their objects and the engine."""
