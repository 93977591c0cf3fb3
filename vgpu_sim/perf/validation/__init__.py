"""Validation: measurements of real boards, a fixed split, and the errors of predictions.

The tables come from the package `aiconfigurator-core` (extra ``perf``), and are never copied.
"""
