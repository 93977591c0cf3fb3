"""``tessera smi``."""
