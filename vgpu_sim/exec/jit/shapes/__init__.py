"""The variation of a value over lanes: vectors and groups, the lattice of shapes, linear sums."""
