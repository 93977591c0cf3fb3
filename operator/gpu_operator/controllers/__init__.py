"""Pure decisions: the world as it was last seen goes in, actions come out."""
