"""Checks of the kubelet's contract for a device plugin or DRA driver (docs/conformance.md)."""
