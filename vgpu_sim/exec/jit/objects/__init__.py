"""Compile kernels to objects, check and keep objects, load them, find words by their addresses."""
