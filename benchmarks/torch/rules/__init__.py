"""CUDA's rules for PyTorch's operators: a table with sources, and a sweep that compares with it."""
