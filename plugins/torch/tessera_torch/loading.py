"""What happens at the end of ``import torch``."""

import time
from typing import Any

from tessera_torch import counts, driver, settings
from tessera_torch.caches import replacement, sharing, trust

_KEPT: list[Any] = []  # registrations end with their library


def is_loaded() -> bool:
    """Return whether the operators are registered."""
    return bool(_KEPT)


def load() -> None:
    """Register the operators, unless the driver is not Tessera's or the user switched them off.

    PyTorch calls this within ``import torch``, which an exception would end. So an error is
    printed, and PyTorch is left as it is.
    """
    if _KEPT or settings.is_switched_off() or not driver.is_tessera():
        return
    started = time.perf_counter()
    try:
        count = _register()
    except Exception as err:  # noqa: BLE001 whatever PyTorch's version lacks
        counts.say(f"eager operators are not available: {type(err).__name__}: {err}")
        return
    counts.print_at_exit()
    counts.log(f"{count} operators registered in {time.perf_counter() - started:.2f} s")


def _register() -> int:
    import torch

    from tessera_torch.registry import register

    # Attention and convolutions choose their kernels before an operator is dispatched.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cudnn.enabled = False
    torch.backends.mha.set_fastpath_enabled(False)  # one kernel for a layer, which is machine code
    settings.keep_fused_multiply_add()
    _prepare_caches(driver.find()[0])
    library, count = register()
    _KEPT.append(library)
    return count


def _prepare_caches(libcuda: str) -> None:
    """Check the caches before anything in them is executed.

    A folder that a variable names is the user's choice, unless kernels are to be brought into it.
    Triton's may be chosen below Inductor's, so Inductor's is checked first.
    """
    checked = settings.chosen_caches()
    if settings.cache_to_share():
        checked = set(settings.CACHE_VARIABLES)
    replacement.secure(checked & {"Inductor"})
    settings.direct_triton(libcuda)
    replacement.secure(checked & {"Triton"})
    _use_shared_cache()


def _use_shared_cache() -> None:
    """Copy kernels of the folder that the user names; without them, kernels are compiled."""
    folder = settings.cache_to_share()
    if folder is None:
        return
    try:
        started = time.perf_counter()
        copied = sharing.bring(folder, settings.fix_caches())
        counts.log(f"{copied} files from {folder} in {time.perf_counter() - started:.2f} s")
    except (trust.NotTrusted, OSError) as err:
        counts.say(f"{settings.SHARED_VARIABLE} is not used: {err}")
