"""PyTorch's eager CUDA operators on Tessera's simulated GPUs.

PyTorch calls ``load`` at the end of ``import torch`` (entry point group ``torch.backends``).
"""


def load() -> None:
    """Register the operators if the process uses Tessera's driver; never raise."""
    from tessera_torch import loading

    loading.load()
