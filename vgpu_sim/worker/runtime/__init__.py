"""The native runtime of a worker: C code that runs requests and kernels, and its Python binding."""
