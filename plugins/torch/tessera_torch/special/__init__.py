"""Special functions, losses and lookups that PyTorch's compiler has no kernels for."""
