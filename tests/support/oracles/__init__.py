"""References for expected results; they import nothing of the product."""
