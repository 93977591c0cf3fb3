"""The checks.

Each is a test; the first line of its docstring is its row in the table of results.
"""
