"""Withdrawal of devices, and of the agent itself, once the node's ``allocatable`` was lowered."""
