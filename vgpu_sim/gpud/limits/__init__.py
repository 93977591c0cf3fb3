"""What a tenant may use: device memory, object caches, the rate of requests, control groups."""
