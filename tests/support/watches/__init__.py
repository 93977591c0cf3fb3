"""Plugins that measure the cost of each test and detect its leftovers."""
