"""Sources of ``libcuda.so.1``: the CUDA driver API for programs that hold a slice."""
