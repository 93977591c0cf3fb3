"""Plans: loops written out for a block, then width, strips and tier by rules with reasons."""
