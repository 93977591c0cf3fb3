"""Modules that a context has loaded: images, links, tables of functions."""
