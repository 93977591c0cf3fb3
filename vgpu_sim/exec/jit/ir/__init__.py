"""A kernel as a graph: SSA form, single-entry loops, the order of blocks, and divergence."""
