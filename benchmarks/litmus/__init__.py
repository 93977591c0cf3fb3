"""Litmus tests: short concurrent programs whose outcomes show which orders memory has."""
