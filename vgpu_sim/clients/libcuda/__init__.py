"""``libcuda.so.1``: the CUDA driver API of a program that holds a slice."""
