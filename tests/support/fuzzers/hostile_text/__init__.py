"""Hostile PTX for every stage of the compiler."""
