"""Sequences of calls with wrong and boundary arguments, by subject."""
