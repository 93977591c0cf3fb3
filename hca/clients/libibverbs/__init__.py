"""Sources of libibverbs.so.1: the verbs API for programs that use a simulated HCA."""
