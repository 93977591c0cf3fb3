"""Loads, stores and atomic updates: scalars, rows, pieces of rows or gathers, by the address's
shape.

``pointers`` clamps every address. ``loads`` and ``stores`` choose the form of access for lanes with
different addresses.
"""
