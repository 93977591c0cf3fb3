"""What is known of numbers before a kernel runs: folding, known numbers, trips.

Addresses are confined, and loops bounded, by what is proven here.
"""
