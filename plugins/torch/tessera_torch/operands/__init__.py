"""The types of operands and results, as PyTorch's CUDA kernels have them."""
