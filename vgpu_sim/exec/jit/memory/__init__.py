"""Loads, stores and atomic updates: from an address's shape to scalars, rows, pieces or gathers.

``pointers`` confines every address. ``loads`` and ``stores`` choose how lanes that differ access
memory.
"""
