"""Runs the controllers: watches fill a store and enqueue keys, and workers process them."""
