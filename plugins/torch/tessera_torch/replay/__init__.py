"""Calls that repeat: their launches are recorded once, and issued again without preparation."""
