"""Comparison of what the compiler accepts with ptxas."""
