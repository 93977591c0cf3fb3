"""Number formats, and arithmetic that the host's CPU and numpy lack."""
