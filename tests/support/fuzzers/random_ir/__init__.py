"""Random LLVM IR, compiled for the host and as PTX."""
