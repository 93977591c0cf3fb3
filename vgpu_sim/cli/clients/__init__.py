"""Clients of gpud for the command line: administration, one slice, and a private gpud."""
