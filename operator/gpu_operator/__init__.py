"""The GPU operator: reconciles GPU resources; reaches nodes only through Kubernetes objects."""
