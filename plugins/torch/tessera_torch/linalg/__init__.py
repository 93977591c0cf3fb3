"""Linear algebra: factorizations in double precision, one block of threads for each matrix."""
