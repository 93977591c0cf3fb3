"""Compile pods, namespaces, networks and policies to the tables of each node."""
