"""``tessera ptxas``, and the check that it and the program ``ptxas`` make."""
