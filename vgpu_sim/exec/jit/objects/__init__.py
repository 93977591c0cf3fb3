"""Kernels as object code: compile, check, cache and load; map code addresses to instructions."""
