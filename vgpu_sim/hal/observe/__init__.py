"""The contract with observers: records of a context's requests."""
