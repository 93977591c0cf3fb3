"""Programs that a test starts by their path; each stands alone."""
