"""The only room with a Kubernetes client: actions as values, a port, and its adapter."""
