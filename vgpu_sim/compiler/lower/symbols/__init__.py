"""Names, parameters, variables in shared memory, and the diagnostics about them."""
