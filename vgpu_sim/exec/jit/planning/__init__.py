"""The choice of a kernel's plan: loops are unrolled for a block shape, then rules choose the width,
the number of vectors per group, and the tier.
"""
