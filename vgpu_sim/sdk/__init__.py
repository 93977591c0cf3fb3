"""``tessera cc``: an nvcc-compatible compiler driver over clang, with CUDA headers of our own."""
