"""Syntax trees to instructions. ``table`` is the binding; its rows name the functions that lower.

What cannot be lowered is collected (``findings``) and refused all at once, never dropped.
"""
