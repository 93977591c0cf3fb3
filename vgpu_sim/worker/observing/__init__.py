"""Observation of a context: records of its requests, counts of its launches, accesses of its
blocks.

This package does not depend on a clock or a model; ``worker.modelling`` is one observer.
``observer`` and ``requests`` are parts of every worker; the rest needs numpy.
"""
