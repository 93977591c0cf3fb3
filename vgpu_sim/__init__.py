"""The simulated GPU: instruction set, compiler, executors, driver and client libraries."""
