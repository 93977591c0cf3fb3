"""The call stack of a kernel: saved frames, dispatch to call targets, and linking of the code."""
