"""Compiles pods, namespaces, networks and policies to the tables of any node."""
