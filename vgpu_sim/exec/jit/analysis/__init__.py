"""Value analysis: each SSA value's shape, the lanes read of it, where NaNs become canonical."""
