"""What an operation would cost on silicon: predicted times as stacks of named causes.

This room stands beside the executors: it knows boards and shapes, and neither workers nor daemons.
Times are in microseconds unless a name says otherwise. docs/performance-model.md derives the terms.
"""
