"""Observe a context: records of its requests, counts of its launches, accesses of its blocks.

Knows neither the clock nor a model: ``worker.modelling`` is one observer. ``observer`` and
``requests`` are parts of every worker; the rest needs numpy.
"""
