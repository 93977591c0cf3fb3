"""Sparse tensors of coordinates, by dense operators of their indices and values."""
