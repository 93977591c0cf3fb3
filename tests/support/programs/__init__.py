"""Programs that are clients of the product: C, Go, CUDA, and third-party ones."""
