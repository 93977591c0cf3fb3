"""The parts in C: the client libraries that programs load, and the context worker's runtime."""
