"""Makes Kubernetes manifests from values. It decides nothing and has no client."""
