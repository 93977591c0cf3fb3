"""Kubelet APIs: definitions written from the public contracts, and the code generated from them."""
