"""Facts about integers at compile time: constant folding, known bits and ranges, trip counts.

They prove that addresses stay within bounds and that loops terminate.
"""
