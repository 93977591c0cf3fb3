"""Operators whose CUDA kernels PyTorch itself compiles with NVRTC: these run as they are."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts, native
from tessera_torch.operator import Operator, overload
from tessera_torch.refusal import Unsupported

_POLYNOMIALS: Final = tuple(
    f"special_{name}"
    for name in (
        "chebyshev_polynomial_t",
        "chebyshev_polynomial_u",
        "chebyshev_polynomial_v",
        "chebyshev_polynomial_w",
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
        "shifted_chebyshev_polynomial_t",
        "shifted_chebyshev_polynomial_u",
        "shifted_chebyshev_polynomial_v",
        "shifted_chebyshev_polynomial_w",
    )
)
_FUNCTIONS: Final = tuple(
    f"special_{name}"
    for name in (
        "airy_ai",
        "i0e",
        "i1e",
        "modified_bessel_k0",
        "modified_bessel_k1",
        "ndtri",
        "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1",
        "spherical_bessel_j0",
        "zeta",
    )
)
NAMES: Final = (
    *(f"{name}{form}" for name in (*_POLYNOMIALS, *_FUNCTIONS) for form in ("", ".out")),
    "polygamma",
    "polygamma_",
    "polygamma.out",
    "gcd",
    "gcd_",
    "gcd.out",
    "lcm",
    "lcm_",
    "lcm.out",
)


def kernels() -> dict[str, Callable[..., Any]]:
    """Return a kernel for each of these operators that PyTorch has for CUDA."""
    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"))
    kernels_by_name = {name: _stock(name) for name in NAMES if f"aten::{name}" in registered}
    return {name: _by_formula(name, kernel) for name, kernel in kernels_by_name.items()}


def _by_formula(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that computes the gradient of digamma, which distributions use, by Inductor.

    NVRTC needs 3 to 50 s for its kernel on a loaded machine, Inductor 1.0 to 1.5 s.
    """
    if name not in ("polygamma", "polygamma.out"):
        return compute
    trigamma = Operator(name, frozenset())

    def choose(n: int, self: Any, **keywords: Any) -> Any:
        return (trigamma if n == 1 else compute)(n, self, **keywords)

    return choose


def _stock(name: str) -> Callable[..., Any]:
    native.remember_kernel(name)
    types = [str(argument.type) for argument in overload(name)._schema.arguments]

    def compute(*arguments: Any, **keywords: Any) -> Any:
        counts.CALLS[name] += 1
        like = next(argument for argument in arguments if isinstance(argument, torch.Tensor))
        converted = [
            torch.tensor(argument, dtype=torch.result_type(like, argument))
            if kind == "Tensor" and not isinstance(argument, torch.Tensor)
            else argument
            for argument, kind in zip(arguments, types, strict=False)
        ]
        try:
            return native.call(name, *converted, **keywords)
        except RuntimeError as err:
            text = str(err).strip().partition("\n")[0]
            if not _is_without_kernel(text):
                raise
            reason = f"PyTorch compiles it with NVRTC, which failed: {text}"
            raise Unsupported(name, (arguments, keywords), reason) from err

    return compute


def _is_without_kernel(text: str) -> bool:
    return any(phrase in text for phrase in ("nvrtc", "NVRTC", "dlopen", "no kernel image"))
