"""Requests of programs that have opened a function."""
