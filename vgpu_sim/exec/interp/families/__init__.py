"""The meaning of each family of instructions, over vectors of lanes."""
