"""A synthetic cluster for the console, and measurements of the console on it."""
