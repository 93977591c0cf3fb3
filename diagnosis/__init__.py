"""What a check reports, and what may leave a machine or a cluster: the standard library only."""
