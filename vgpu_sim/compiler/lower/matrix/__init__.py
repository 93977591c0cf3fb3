"""Matrix instructions: fragments, moves and products."""
