"""Analyses and proofs of compiled text and objects."""
