"""Calls of functions, their arguments and results."""
