"""Does a device plugin or a DRA driver keep the kubelet's contract? (docs/conformance.md)"""
