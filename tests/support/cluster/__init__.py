"""The cluster of the end-to-end tests: kubectl, restarts, pods with HCAs."""
