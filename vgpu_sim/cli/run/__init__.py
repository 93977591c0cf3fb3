"""``tessera run``: a program with a simulated GPU of its own."""
