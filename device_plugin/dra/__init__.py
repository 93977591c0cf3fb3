"""Dynamic Resource Allocation (resource.k8s.io/v1): devices, slices and classes of GPUs."""
