"""Comparison between the PTX that the compiler accepts and the PTX that ptxas accepts."""
