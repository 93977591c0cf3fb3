"""Whether the parts of Tessera work, and whether nodes enforce what policies state."""
