"""GPU architectures of a compilation, from nvcc's ``-arch``, ``-code`` and ``-gencode``."""

import re
from collections.abc import Sequence

from vgpu_sim.sdk.errors import CompileError

# Runs on every board that Tessera simulates from compute capability 8.0 upward.
DEFAULT = "80"
# nvcc's -arch=all and -arch=all-major, as far as every clang from 17 on can emit them.
_ALL = ("80", "86", "89", "90")
_ALL_MAJOR = ("80", "90")
_NAME = re.compile(r"(compute|sm|lto)_([0-9]{2,3}[af]?)")


def _parse(name: str) -> str:
    match = _NAME.fullmatch(name)
    if match is None:
        raise CompileError(f"'{name}' is not an architecture such as sm_90 or compute_90")
    if match[1] == "lto":
        raise CompileError(
            f"'{name}': LTO-IR is NVIDIA's own format; use code=compute_{match[2]} instead"
        )
    return match[2]


def _parse_generate_code(value: str) -> list[str]:
    parts = dict(part.strip().partition("=")[::2] for part in re.split(r",(?=arch=|code=)", value))
    if set(parts) - {"arch", "code"} or "arch" not in parts:
        raise CompileError(f"-gencode '{value}': expected arch=compute_NN,code=sm_NN")
    virtual = _parse(parts["arch"])
    for code in parts.get("code", "").strip("[]\"'").split(","):
        if code:
            _parse(code.strip(" \"'"))
    # A GPU's binary code is compiled from the PTX by the driver, so code= only selects the PTX.
    return [virtual]


def select(arch: str | None, generate: Sequence[str]) -> list[str]:
    """Return the architectures for which PTX is made, such as ``["80", "90a"]``, lowest first.

    Every ``sm_NN`` becomes PTX for ``compute_NN``: the driver compiles PTX when it loads it.

    Raises:
        CompileError: a name is not an architecture, or one whose code would not be PTX.
    """
    architectures: list[str] = []
    for value in generate:
        architectures += _parse_generate_code(value)
    if arch in ("all", "all-major"):
        architectures += _ALL if arch == "all" else _ALL_MAJOR
    elif arch == "native":
        architectures.append(DEFAULT)
    elif arch is not None:
        architectures += [_parse(name) for name in arch.split(",")]
    if not architectures:
        architectures.append(DEFAULT)
    return sorted(set(architectures), key=lambda name: (int(name.rstrip("af")), name))
