"""Summary of a module for loading: everything except code. The summary is small, because every load
reads it.
"""

import json
from dataclasses import asdict
from typing import Any

from vgpu_sim.isa import Function, Module, Space, has_stack
from vgpu_sim.records import dataclass
from vgpu_sim.worker import descriptors, pipes
from vgpu_sim.worker.pipes import PIPES

_Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A kernel in a summary. ``parameters`` are (offset, size) in bytes; block limits are as in
    ``isa.Function``.

    ``local_bytes`` is the size of a thread's local memory without the stack that calls need.
    ``pipes`` has one number for each pipe: the pipe's share of the kernel's instructions
    (``worker.pipes``).
    """

    name: str
    parameters: tuple[tuple[int, int], ...]
    parameter_bytes: int
    registers: int
    shared_bytes: int
    local_bytes: int
    required_block: _Block | None
    maximum_block: _Block | None
    required_cluster: _Block | None = None
    counts_clusters: bool = False
    maximum_cluster: int = 0
    parameter_image: int | None = None  # offset in the segment
    has_stack: bool = False
    tensor_memory: bool = False
    launches: bool = False  # kernels
    pipes: tuple[int, ...] = (0,) * len(PIPES)


@dataclass(frozen=True, slots=True)
class RefusedSummary:
    """An unsupported kernel or variable of the module's source, with the reason as a log."""

    name: str
    is_kernel: bool
    log: str


@dataclass(frozen=True, slots=True)
class ModuleSummary:
    """The summary of a module; ``variables`` are (name, offset in the segment, size in bytes).

    ``target`` is the compute capability that the PTX names as its target, ``const_bytes`` the size
    of the module's constant memory, and ``segment_align`` the alignment of its segment.
    """

    functions: tuple[FunctionSummary, ...]
    variables: tuple[tuple[str, int, int], ...]
    segment_bytes: int
    target: tuple[int, int]
    const_bytes: int = 0
    segment_align: int = 1
    refused: tuple[RefusedSummary, ...] = ()

    def log(self, max_bytes: int) -> str:
        """Return a text for display that lists the unsupported kernels and variables of the module,
        with the reasons. The text is empty if all are supported.
        """
        texts, free_bytes = [], max_bytes
        for refusal in self.refused:
            kind = "kernel" if refusal.is_kernel else "variable"
            text = f"{kind} {refusal.name!r} cannot be used yet:\n{refusal.log}"
            free_bytes -= len(text.encode())
            if free_bytes < 0:
                texts.append("...\n")
                break
            texts.append(text)
        return "".join(texts)

    def to_json(self) -> bytes:
        """Serialize the summary."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "ModuleSummary":
        """Create a summary from the output of ``to_json``.

        Raises:
            ValueError: the data was not written by ``to_json``.
        """
        try:
            document = json.loads(data)
            return cls(
                functions=tuple(_function_from_json(f) for f in document["functions"]),
                variables=tuple((name, at, size) for name, at, size in document["variables"]),
                segment_bytes=document["segment_bytes"],
                target=(document["target"][0], document["target"][1]),
                const_bytes=document["const_bytes"],
                segment_align=document["segment_align"],
                refused=tuple(RefusedSummary(**fields) for fields in document["refused"]),
            )
        except (KeyError, TypeError, IndexError) as err:
            raise ValueError(f"not a module's summary: {err}") from err


def summarise(module: Module, refused: tuple[RefusedSummary, ...] = ()) -> ModuleSummary:
    """Return the summary of a decoded module; ``refused`` are its unsupported kernels and
    variables.
    """
    lost = {refusal.name for refusal in refused}
    offsets = {variable.name: variable.offset for variable in module.variables}
    return ModuleSummary(
        functions=tuple(
            _summarise_function(function, offsets.get(function.parameter_image))
            for function in module.functions
            if function.name not in lost
        ),
        variables=tuple((v.name, v.offset, v.size) for v in module.variables),
        segment_bytes=module.segment_bytes,
        target=module.required_capability,
        const_bytes=_const_bytes(module),
        segment_align=max((variable.align for variable in module.variables), default=1),
        refused=refused,
    )


def name_only(name: str) -> FunctionSummary:
    """Return the summary of a kernel of which only the name is known."""
    return FunctionSummary(name, (), 0, 0, 0, 0, None, None)


def _const_bytes(module: Module) -> int:
    """Return the size of a module's constant bank, which each of its kernels has as a whole."""
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
        required_cluster=function.required_cluster,
        counts_clusters=function.counts_clusters,
        maximum_cluster=function.maximum_cluster,
        parameter_image=parameter_image,
        has_stack=has_stack(function),
        tensor_memory=function.tensor_memory,
        launches=descriptors.launches(function),
        pipes=pipes.shares(function),
    )


def _function_from_json(document: dict[str, Any]) -> FunctionSummary:
    values = dict(document)
    values["parameters"] = tuple((at, size) for at, size in values["parameters"])
    values["pipes"] = tuple(values["pipes"])
    for name in ("required_block", "maximum_block", "required_cluster"):
        block = values[name]
        values[name] = None if block is None else (block[0], block[1], block[2])
    return FunctionSummary(**values)
