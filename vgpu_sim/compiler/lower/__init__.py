"""Lowers syntax trees to instructions. ``table`` is the binding; its rows name the lowering
functions.

Whatever cannot be lowered is collected (``findings``) and refused all at once, never dropped.
"""
