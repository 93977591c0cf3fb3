"""Rows of the table of rules, one module for each family of operators."""
