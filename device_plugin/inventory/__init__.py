"""Pure values: gpud's inventory, and the extended resources of slices."""
