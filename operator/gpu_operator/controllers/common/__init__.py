"""Shared parts of the controllers: the world, conditions, membership of nodes, and offers."""
