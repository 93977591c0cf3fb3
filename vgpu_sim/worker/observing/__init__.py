"""What a modelled clock needs of a program: what its kernels do, and in which order.

Only a worker whose clock is modelled imports this: it needs numpy.
"""
