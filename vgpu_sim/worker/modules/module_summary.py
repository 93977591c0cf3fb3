"""What loading a module needs to know of it: no code. Small enough to be read on every load."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from vgpu_sim.isa import Function, Module, Space, has_stack
from vgpu_sim.worker import pipes
from vgpu_sim.worker.pipes import PIPES

_Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A kernel; ``parameters`` are (offset, size) in bytes. Blocks as in ``isa.Function``.

    ``local_bytes`` is what a thread has of local memory before a stack, if it has one. ``pipes``
    are the shares of its instructions (``worker.pipes``).
    """

    name: str
    parameters: tuple[tuple[int, int], ...]
    parameter_bytes: int
    registers: int
    shared_bytes: int
    local_bytes: int
    required_block: _Block | None
    maximum_block: _Block | None
    parameter_image: int | None = None  # offset in the segment
    has_stack: bool = False
    pipes: tuple[int, ...] = (0,) * len(PIPES)


@dataclass(frozen=True, slots=True)
class RefusedSummary:
    """A kernel or variable that the module's source has and that cannot be used; why, as a log."""

    name: str
    is_kernel: bool
    log: str


@dataclass(frozen=True, slots=True)
class ModuleSummary:
    """A module; ``variables`` are (name, offset in the segment, size).

    ``const_bytes`` is what its constant memory takes, ``segment_align`` what divides the address of
    its segment.
    """

    functions: tuple[FunctionSummary, ...]
    variables: tuple[tuple[str, int, int], ...]
    segment_bytes: int
    ptx_version: tuple[int, int]
    const_bytes: int = 0
    segment_align: int = 1
    refused: tuple[RefusedSummary, ...] = ()

    def log(self, max_bytes: int) -> str:
        """Return what is refused and why, for people; nothing where nothing is."""
        found, left = [], max_bytes
        for one in self.refused:
            what = "kernel" if one.is_kernel else "variable"
            text = f"{what} {one.name!r} cannot be used yet:\n{one.log}"
            left -= len(text.encode())
            if left < 0:
                found.append("...\n")
                break
            found.append(text)
        return "".join(found)

    def to_json(self) -> bytes:
        """Write it as bytes that ``from_json`` reads."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "ModuleSummary":
        """Read what ``to_json`` has written.

        Raises:
            ValueError: for anything else.
        """
        try:
            document = json.loads(data)
            return cls(
                functions=tuple(_function_from_json(f) for f in document["functions"]),
                variables=tuple((name, at, size) for name, at, size in document["variables"]),
                segment_bytes=document["segment_bytes"],
                ptx_version=(document["ptx_version"][0], document["ptx_version"][1]),
                const_bytes=document["const_bytes"],
                segment_align=document["segment_align"],
                refused=tuple(RefusedSummary(**one) for one in document["refused"]),
            )
        except (KeyError, TypeError, IndexError) as err:
            raise ValueError(f"not a module's summary: {err}") from err


def summarise(module: Module, refused: tuple[RefusedSummary, ...] = ()) -> ModuleSummary:
    """Take the summary of a decoded module, of which ``refused`` cannot be used."""
    lost = {one.name for one in refused}
    offsets = {variable.name: variable.offset for variable in module.variables}
    return ModuleSummary(
        functions=tuple(
            _summarise_function(function, offsets.get(function.parameter_image))
            for function in module.functions
            if function.name not in lost
        ),
        variables=tuple((v.name, v.offset, v.size) for v in module.variables),
        segment_bytes=module.segment_bytes,
        ptx_version=module.ptx_version,
        const_bytes=_const_bytes(module),
        segment_align=max((variable.align for variable in module.variables), default=1),
        refused=refused,
    )


def _const_bytes(module: Module) -> int:
    """Return the size of a module's constant bank, which all of its kernels have as a whole."""
    end = 0
    for variable in module.variables:
        if variable.space is Space.CONST:
            end = -(-end // variable.align) * variable.align + variable.size
    return end


def _summarise_function(function: Function, parameter_image: int | None) -> FunctionSummary:
    return FunctionSummary(
        name=function.name,
        parameters=tuple((p.offset, p.size) for p in function.parameters),
        parameter_bytes=function.parameter_bytes,
        registers=function.physical.peak_registers,
        shared_bytes=function.shared_bytes,
        local_bytes=function.local_bytes,
        required_block=function.required_block,
        maximum_block=function.maximum_block,
        parameter_image=parameter_image,
        has_stack=has_stack(function),
        pipes=pipes.shares(function),
    )


def _function_from_json(document: dict[str, Any]) -> FunctionSummary:
    values = dict(document)
    values["parameters"] = tuple((at, size) for at, size in values["parameters"])
    values["pipes"] = tuple(values["pipes"])
    for name in ("required_block", "maximum_block"):
        block = values[name]
        values[name] = None if block is None else (block[0], block[1], block[2])
    return FunctionSummary(**values)
