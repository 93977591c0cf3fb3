"""Random kernels on three executors, and minimised failures."""
