"""Control groups that hold each slice to its share of memory and CPU."""
