"""Parts of the simulated device in this process, under a test's control."""
