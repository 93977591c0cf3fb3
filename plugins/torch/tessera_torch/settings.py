"""The only module of this package that reads environment variables."""

import os

SWITCH_VARIABLE = "TESSERA_TORCH"  # 0: PyTorch is left as it is
FALLBACK_VARIABLE = "TESSERA_TORCH_FALLBACK"  # cpu: what has no kernel runs on the CPU
LOG_VARIABLE = "TESSERA_TORCH_LOG"  # 1: a line for each kernel, and counts at the end


def keep_fused_multiply_add() -> None:
    """Choose Triton's default of today, so that it does not warn of its change."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


def is_switched_off() -> bool:
    """Return whether the user wants no operators of this package."""
    return os.environ.get(SWITCH_VARIABLE) == "0"


def falls_back_to_cpu() -> bool:
    """Return whether operators without a kernel run on the CPU."""
    return os.environ.get(FALLBACK_VARIABLE) == "cpu"


def logs() -> bool:
    """Return whether each compilation is logged."""
    return os.environ.get(LOG_VARIABLE, "0") not in ("", "0")
