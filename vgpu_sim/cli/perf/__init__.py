"""``tessera perf``."""
