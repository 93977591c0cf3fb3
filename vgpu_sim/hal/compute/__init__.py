"""The contract with programs: memory, rings, launches, backends, and the start of workers."""
