"""The instruction families, one module each; ``ROWS`` in each are the family's opcodes (ADR 19)."""
