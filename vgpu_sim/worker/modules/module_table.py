"""The table of a loaded module's contents for the client (layout: ``hal.messages``)."""

import ctypes

from vgpu_sim.hal import messages
from vgpu_sim.kernel_names.title import title_of
from vgpu_sim.worker.modules.module_summary import FunctionSummary, ModuleSummary


class _Strings:
    """The table's NUL-terminated strings, which follow one another from a known offset on."""

    def __init__(self, base: int) -> None:
        self._base = base
        self.data = bytearray()

    def add(self, text: str) -> int:
        """Append a string; return its offset from the table's start."""
        offset = self._base + len(self.data)
        self.data += text.encode() + b"\0"
        return offset


def log_only(log: str, kernel: str = "") -> bytes:
    """Return the table for a module, or for the named kernel of a lazy module, that could not be
    loaded. It has ``log`` and, as a refused kernel, the kernel's name and title.
    """
    strings = _Strings(ctypes.sizeof(messages.TableHeader) + ctypes.sizeof(messages.RefusedRecord))
    refused = messages.RefusedRecord(
        name_offset=strings.add(kernel),
        log_offset=strings.add(""),
        is_kernel=True,
        title_offset=strings.add(title_of(kernel)),
    )
    return _assemble([], [], [], [refused] if kernel else [], [], strings, log)


def of_module(
    module: ModuleSummary,
    kernels: dict[str, int],
    segment_base: int,
    capability: tuple[int, int],
    max_threads: int,
    log: str = "",
) -> bytes:
    """Return a loaded module's table.

    ``kernels`` maps function names to launch handles. ``max_threads`` is the device's limit of
    threads in a block. ``log`` has warnings about the module.
    """
    parameter_count = sum(len(function.parameters) for function in module.functions)
    strings = _Strings(
        ctypes.sizeof(messages.TableHeader)
        + len(module.functions) * ctypes.sizeof(messages.FunctionRecord)
        + parameter_count * ctypes.sizeof(messages.ParameterRecord)
        + len(module.variables) * ctypes.sizeof(messages.VariableRecord)
        + len(module.refused) * ctypes.sizeof(messages.RefusedRecord)
        + len(module.functions) * ctypes.sizeof(ctypes.c_uint32)
    )
    functions: list[messages.FunctionRecord] = []
    parameters: list[messages.ParameterRecord] = []
    for function in module.functions:
        record = _function_record(function, max_threads)
        record.name_offset = strings.add(function.name)
        record.parameter_first = len(parameters)
        record.kernel = kernels[function.name]
        record.ptx_version = _version(module.target)
        record.const_bytes = module.const_bytes
        record.binary_version = _version(capability)
        functions.append(record)
        parameters += [messages.ParameterRecord(*parameter) for parameter in function.parameters]
    variables = [
        messages.VariableRecord(
            name_offset=strings.add(name),
            address=segment_base + offset,
            bytes=size,
        )
        for name, offset, size in module.variables
    ]
    refused = [
        messages.RefusedRecord(
            name_offset=strings.add(refusal.name),
            log_offset=strings.add(refusal.log),
            is_kernel=refusal.is_kernel,
            title_offset=strings.add(title_of(refusal.name)) if refusal.is_kernel else 0,
        )
        for refusal in module.refused
    ]
    # Clients print the titles of loaded kernels only. A lazy module can have thousands of others.
    titles = [
        strings.add(title_of(function.name)) if kernels[function.name] else 0
        for function in module.functions
    ]
    return _assemble(functions, parameters, variables, refused, titles, strings, log)


def _function_record(function: FunctionSummary, max_threads: int) -> messages.FunctionRecord:
    for bound in (function.maximum_block, function.required_block):
        if bound is not None:
            x, y, z = bound
            max_threads = min(max_threads, x * y * z)
    return messages.FunctionRecord(
        parameter_count=len(function.parameters),
        parameter_bytes=function.parameter_bytes,
        max_threads=max_threads,
        registers=function.registers,
        shared_bytes=function.shared_bytes,
        local_bytes=function.local_bytes,
        required_block=function.required_block or (0, 0, 0),
        required_cluster=function.required_cluster or (0, 0, 0),
        needs_cluster=(function.required_cluster is not None) + function.counts_clusters,
        max_cluster=function.maximum_cluster,
    )


def _version(version: tuple[int, int]) -> int:
    return version[0] * 10 + version[1]


def _assemble(
    functions: list[messages.FunctionRecord],
    parameters: list[messages.ParameterRecord],
    variables: list[messages.VariableRecord],
    refused: list[messages.RefusedRecord],
    titles: list[int],
    strings: _Strings,
    log: str,
) -> bytes:
    parts = [
        b"".join(map(bytes, functions)),
        b"".join(map(bytes, parameters)),
        b"".join(map(bytes, variables)),
        b"".join(map(bytes, refused)),
        bytes((ctypes.c_uint32 * len(titles))(*titles)),
        bytes(strings.data),
        log.encode() + b"\0",
    ]
    offsets = [ctypes.sizeof(messages.TableHeader)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    header = messages.TableHeader(
        function_count=len(functions),
        function_offset=offsets[0],
        parameter_count=len(parameters),
        parameter_offset=offsets[1],
        variable_count=len(variables),
        variable_offset=offsets[2],
        refused_count=len(refused),
        refused_offset=offsets[3],
        log_offset=offsets[6],
        log_bytes=len(parts[6]),
        titles_offset=offsets[4],
    )
    return b"".join([bytes(header), *parts])
