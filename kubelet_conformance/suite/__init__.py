"""The checks. Each is a test; its first line is its row in the matrix of results."""
