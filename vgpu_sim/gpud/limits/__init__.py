"""What a tenant may use: device memory, object caches, starts of workers, control groups."""
