"""What is known of numbers before a kernel runs: folding, ranges, bits, trips, provenance.

Addresses are confined, and loops bounded, by what is proven here.
"""
