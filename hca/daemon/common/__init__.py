"""What every room of hcad uses: functions, quotas, numbers, shared memory, handover state."""
