"""Contract of programs: memory, rings, launches, backends, and how workers are started."""
