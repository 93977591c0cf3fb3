"""Control flow as masks: the loop over blocks, and each version's regions, loops and nodes."""
