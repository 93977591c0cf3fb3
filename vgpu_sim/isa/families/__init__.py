"""The families, one module each: ``ROWS`` are its opcodes (docs/adr/0019-families.md)."""
