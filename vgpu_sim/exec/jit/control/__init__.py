"""Control flow as masks: the loop over blocks, and a version's regions, loops and nodes."""
