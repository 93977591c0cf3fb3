"""Forward progress: where threads wait for others, and which lane groups may wait as one."""
