"""Kubelet APIs: definitions by us from the public contracts, and the code generated from them."""
