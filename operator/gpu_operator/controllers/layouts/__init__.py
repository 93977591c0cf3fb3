"""MIGLayout: decides in phases which slices each GPU gets."""
