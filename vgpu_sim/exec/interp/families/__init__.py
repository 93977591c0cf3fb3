"""The semantics of each instruction family, on vectors of lanes."""
