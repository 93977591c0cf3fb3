"""Checks ``.target`` against the device (PTX ISA, ".target").

- ``sm_80`` runs on compute capability 8.0 and above.
- ``sm_90a`` (architecture-specific) runs only on 9.0.
- ``sm_100f`` (family-specific) runs on devices of the same major capability that are not older.
"""

import re

from vgpu_sim.compiler.errors import Diagnostic, PtxSyntaxError, TargetError, UnsupportedPtxError
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.grammar.requirements import Target

_SM = re.compile(r"sm_([0-9]{1,2})([0-9])([af]?)")

# Platform options: textures are refused where they are used, and debug changes no result.
_HARMLESS = frozenset({"texmode_unified", "texmode_independent", "debug"})


def required_capability(module: tree.Module, name: str = "<ptx>") -> tuple[int, int]:
    """Return the compute capability that a module's targets require.

    Raises:
        PtxSyntaxError: a target is unknown.
        UnsupportedPtxError: for ``map_f64_to_f32``, which changes the meaning of instructions.
    """
    return max(_requirements(module, name))[:2]


def check(module: tree.Module, capability: tuple[int, int], name: str = "<ptx>") -> None:
    """Check a module against a device's compute capability.

    Raises:
        TargetError: the module was made for another or a newer device.
        PtxSyntaxError, UnsupportedPtxError: as ``required_capability``.
    """
    for target, (major, minor, suffix) in zip(
        module.targets, _requirements(module, name), strict=True
    ):
        needed_capability = (major, minor)
        fits = {
            "": needed_capability <= capability,
            "a": needed_capability == capability,
            "f": major == capability[0] and needed_capability <= capability,
        }[suffix]
        if not fits:
            device = f"{capability[0]}.{capability[1]}"
            message = f".target {target.options[0]} does not run on compute capability {device}"
            raise TargetError([Diagnostic(target.line, target.column, message)], name)


def first(module: tree.Module, name: str = "<ptx>") -> Target:
    """Return the target for which a module's instructions are written.

    Raises:
        PtxSyntaxError, UnsupportedPtxError: as ``required_capability``.
    """
    major, minor, suffix = _requirements(module, name)[0]
    return Target(10 * major + minor, suffix)


def _requirements(module: tree.Module, name: str) -> list[tuple[int, int, str]]:
    return [_requirement(target, name) for target in module.targets]


def _requirement(target: tree.Target, name: str) -> tuple[int, int, str]:
    first, *options = target.options
    match = _SM.fullmatch(first)
    if match is None:
        raise PtxSyntaxError(target.line, target.column, f"unknown target {first!r}", name)
    for option in options:
        if option == "map_f64_to_f32":
            message = "target option map_f64_to_f32 is not supported yet"
            raise UnsupportedPtxError([Diagnostic(target.line, target.column, message)], name)
        if option not in _HARMLESS:
            raise PtxSyntaxError(target.line, target.column, f"unknown option {option!r}", name)
    return int(match[1]), int(match[2]), match[3]
