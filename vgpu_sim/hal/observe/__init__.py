"""Contract of observers: records of what a context does."""
