"""How a value varies over lanes: strips and groups, the lattice of shapes, sums of shared parts."""
