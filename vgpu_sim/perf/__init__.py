"""Predicts the times of operations on real boards, as stacks of named causes.

This package does not depend on the executors: it uses boards and shapes, not workers or daemons.
Times are in microseconds unless a name says otherwise. docs/performance-model.md derives the
terms.
"""
