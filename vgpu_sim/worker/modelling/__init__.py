"""Keep a modelled clock: an observer that knows what kernels would take on a board.

Only a worker whose clock is modelled imports this: it needs numpy.
"""
