"""The simulated host channel adapter (HCA): its daemon hcad, and the libraries that programs
load.
"""
