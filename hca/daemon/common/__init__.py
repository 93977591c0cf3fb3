"""Modules that all parts of hcad use, such as functions, quotas, numbers and handover state."""
