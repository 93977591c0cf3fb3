"""Forward progress: the points at which threads wait, and the lane groups that may wait as one."""
