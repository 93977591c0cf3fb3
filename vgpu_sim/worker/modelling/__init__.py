"""A modelled clock: an observer that predicts the time of kernels on a board.

Only a worker whose clock is modelled imports this: it needs numpy.
"""
