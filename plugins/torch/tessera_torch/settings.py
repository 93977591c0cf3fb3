"""The only module of this package that reads environment variables."""

import functools
import os

SWITCH_VARIABLE = "TESSERA_TORCH"  # 0: PyTorch is left as it is
FALLBACK_VARIABLE = "TESSERA_TORCH_FALLBACK"  # cpu: what has no kernel runs on the CPU
CHECK_VARIABLE = "TESSERA_TORCH_CHECK_INDICES"  # 0: indices are not checked
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


@functools.cache
def checks_indices() -> bool:
    """Return whether indices are checked on the host; the variable is read once."""
    return os.environ.get(CHECK_VARIABLE) != "0"


def logs() -> bool:
    """Return whether each compilation is logged."""
    return os.environ.get(LOG_VARIABLE, "0") not in ("", "0")
