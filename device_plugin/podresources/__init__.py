"""Reads which pod has which slice, from the kubelet's pod resources API."""
