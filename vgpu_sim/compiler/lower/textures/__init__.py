"""Textures and surfaces: fetches, loads, stores and queries through descriptors in memory."""
