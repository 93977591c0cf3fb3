"""The GPU operator: reconciles GPU custom resources; reaches nodes only through Kubernetes objects."""
