"""Generates those parts of a client library that follow from the list of its functions."""
