"""PTX of tensor kernels for the contests, written by functions: no SDK is needed to change them."""
