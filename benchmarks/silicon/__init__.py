"""Comparisons of Tessera with a real GPU."""
