"""``tessera ptx`` and ``tessera isa``."""
