"""PTX and kernels run on both executors in this process."""
