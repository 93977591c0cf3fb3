"""C++ kernels as clang compiles them, with their oracle."""
