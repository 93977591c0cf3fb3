"""Formulas that PyTorch has no decomposition for."""
