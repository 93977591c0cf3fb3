"""A rig for the connection manager in this process, and a model checker of it."""
