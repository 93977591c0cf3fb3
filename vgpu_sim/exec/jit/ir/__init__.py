"""A kernel as a graph: SSA form, one entry to a loop, the order of blocks, where lanes diverge."""
