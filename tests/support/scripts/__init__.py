"""Programs that a test starts by their path, independent of each other."""
