"""Client test suites: each client's own tests, unmodified, run against a simulated GPU."""
