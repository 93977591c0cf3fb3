"""Random kernels, random LLVM IR and hostile PTX (``make fuzz``)."""
