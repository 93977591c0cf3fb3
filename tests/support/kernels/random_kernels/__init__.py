"""Random kernels by a seed, as PTX."""
