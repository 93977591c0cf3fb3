"""The judge: measurements of real boards, a fixed split, and how far predictions are off.

The tables are those of the package `aiconfigurator-core` (extra ``perf``), read and never copied.
"""
