"""Modules of a context: images, links, tables of functions."""
