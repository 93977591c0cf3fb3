"""Times of kernels on a real GPU, and what the performance model predicts for the same kernels."""
