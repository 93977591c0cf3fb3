"""MIGLayout: which slices each GPU gets, decided in phases."""
