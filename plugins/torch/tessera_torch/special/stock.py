"""Operators whose CUDA kernels PyTorch itself compiles with NVRTC: these run as they are."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts, native
from tessera_torch.refusal import Unsupported

_POLYNOMIALS: Final = tuple(
    f"special_{name}"
    for name in (
        *("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v"),
        *("chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he"),
        *("laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_t"),
        *("shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v"),
        "shifted_chebyshev_polynomial_w",
    )
)
_FUNCTIONS: Final = tuple(
    f"special_{name}"
    for name in (
        *("airy_ai", "i0e", "i1e", "modified_bessel_k0", "modified_bessel_k1", "ndtri"),
        *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"),
        "zeta",
    )
)
NAMES: Final = (
    *(f"{name}{form}" for name in (*_POLYNOMIALS, *_FUNCTIONS) for form in ("", ".out")),
    *("polygamma", "polygamma_", "polygamma.out", "gcd", "gcd_", "gcd.out"),
)


def kernels() -> dict[str, Callable[..., Any]]:
    """Return a kernel for each of these operators that PyTorch has for CUDA."""
    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"))
    return {name: _stock(name) for name in NAMES if f"aten::{name}" in registered}


def _stock(name: str) -> Callable[..., Any]:
    native.remember_kernel(name)

    def compute(*arguments: Any, **keywords: Any) -> Any:
        counts.CALLS[name] += 1
        try:
            return native.call(name, *arguments, **keywords)
        except RuntimeError as err:
            text = str(err).strip().partition("\n")[0]
            if not _is_without_kernel(text):
                raise
            reason = f"PyTorch compiles it with NVRTC, which failed: {text}"
            raise Unsupported(name, (arguments, keywords), reason) from err

    return compute


def _is_without_kernel(text: str) -> bool:
    return any(one in text for one in ("nvrtc", "NVRTC", "dlopen", "no kernel image"))
