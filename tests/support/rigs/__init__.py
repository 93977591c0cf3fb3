"""Rigs: parts of the simulated devices in this process, under a test's control."""
