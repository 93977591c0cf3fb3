"""Serve the requests of programs that have opened a function."""
