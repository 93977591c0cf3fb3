"""The node's GPUs and MIG instances: inventory, journal, and what a client may query of them."""
