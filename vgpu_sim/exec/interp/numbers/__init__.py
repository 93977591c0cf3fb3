"""Formats of numbers and arithmetic that hosts do not have."""
