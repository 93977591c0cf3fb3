"""Checks of the environment in which PyTorch runs: ``python -m tessera_torch.doctor [-o json]``."""
