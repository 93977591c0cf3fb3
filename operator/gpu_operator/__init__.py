"""The GPU operator: reconciles GPU resources, and reaches nodes only through Kubernetes objects."""
