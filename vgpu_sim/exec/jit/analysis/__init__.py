"""Value analysis: the shape of each SSA value, its demanded lanes, and where NaNs become
canonical.
"""
