"""The caches of compiled kernels: whether they are safe, their replacement, and shared ones."""
