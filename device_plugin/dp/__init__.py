"""The kubelet's device plugin API v1beta1, one service for each extended resource."""
