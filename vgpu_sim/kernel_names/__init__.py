"""The names of kernels as users read them: demangled, printable and of bounded length."""
