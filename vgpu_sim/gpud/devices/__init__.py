"""The node's GPUs and MIG instances: inventory, journal, and the properties that clients query."""
