"""Names, parameters, variables in shared memory and the findings about them."""
