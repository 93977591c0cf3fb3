"""The kubectl plugin: what the console's pages show, as text.

It lists the objects once through the operator's adapter, computes with the console's model and
views, and has no code that writes to the cluster.
"""
