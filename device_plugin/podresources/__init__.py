"""Which pod holds which slice, from the kubelet's pod resources API."""
