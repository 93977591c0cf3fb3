"""The simulated GPU: instruction set, compiler, executors, driver and the libraries programs load."""
