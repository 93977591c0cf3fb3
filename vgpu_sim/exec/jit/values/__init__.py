"""SSA values as LLVM values: their representation, launch constants, and run-time tests on
lanes.
"""
