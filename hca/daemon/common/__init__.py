"""Modules that all parts of hcad use: functions, quotas, numbers, shared memory, handover state."""
