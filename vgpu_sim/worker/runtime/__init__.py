"""The runtime of a context worker: C that launches and runs kernels, and its binding."""
