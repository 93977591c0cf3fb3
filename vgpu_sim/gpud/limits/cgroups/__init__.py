"""Control groups that limit each slice to its share of memory and CPU."""
