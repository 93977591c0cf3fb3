"""``tessera mig``."""
