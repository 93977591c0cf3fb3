"""Limits of tenants: device memory, object caches, worker starts, control groups."""
