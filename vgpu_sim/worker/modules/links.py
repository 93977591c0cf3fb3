"""Links the inputs of cuLinkCreate's linker to one container, or fails with an error that has a
log.
"""

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from vgpu_sim.compiler import linking
from vgpu_sim.compiler.errors import LinkError, PtxError, TargetError, UnsupportedPtxError
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import LinkInput
from vgpu_sim.isa import Function, Module, container
from vgpu_sim.isa.errors import IsaError
from vgpu_sim.worker.modules import link_inputs
from vgpu_sim.worker.modules.images import MAX_LOG_BYTES, ImageError

_HEAD: Final = struct.Struct("<IIQ")  # bytes of the name, kind, bytes of the image


def link(
    data: bytes, capability: tuple[int, int], *, check_only: bool, max_registers: int = 0
) -> bytes:
    """Link the inputs of a MODULE_LINK message; return the container, or nothing if ``check_only``
    is set.

    ``max_registers`` limits the number of registers that each kernel reports; 0 means no limit.

    Raises:
        ImageError: the CUresult is 200 if a name is missing or defined twice, or an input is
            damaged. It is 209 for an input for other hardware, 218 for an input that is not PTX,
            and 801 for an input that is not supported.
    """
    try:
        inputs = list(_inputs(data, capability))
        if check_only:
            for linked_input in inputs:
                linking.check(linked_input, capability)
            return b""
        module = linking.link(inputs, capability)
        return container.encode(
            _limit_registers(module, max_registers) if max_registers else module
        )
    except PtxError as err:
        raise ImageError(_status(err), err.log(MAX_LOG_BYTES)) from err
    except IsaError as err:
        raise ImageError(CudaError.INVALID_IMAGE, f"the linked module: {err}\n") from err


def _limit_registers(module: Module, max_registers: int) -> Module:
    """Return a module whose kernels have at most ``max_registers`` registers, as with ptxas."""

    def limit(function: Function) -> Function:
        peak = min(function.physical.peak_registers, max_registers)
        return replace(function, physical=replace(function.physical, peak_registers=peak))

    return replace(module, functions=tuple(map(limit, module.functions)))


def _status(error: PtxError) -> CudaError:
    match error:
        case LinkError():
            return CudaError.INVALID_IMAGE
        case TargetError():
            return CudaError.NO_BINARY_FOR_GPU
        case UnsupportedPtxError():
            return CudaError.NOT_SUPPORTED
        case _:
            return CudaError.INVALID_PTX


def _inputs(data: bytes, capability: tuple[int, int]) -> Iterator[linking.Input]:
    at, reader = 0, link_inputs.Reader(capability)
    left_out: ImageError | None = None
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise ImageError(CudaError.INVALID_IMAGE, "the inputs end inside of one\n")
        name_bytes, kind, image_bytes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if name_bytes + image_bytes > len(data) - at:
            raise ImageError(CudaError.INVALID_IMAGE, "the inputs end inside of one\n")
        name = data[at : at + name_bytes].decode(errors="replace")
        image = data[at + name_bytes : at + name_bytes + image_bytes]
        at += name_bytes + image_bytes
        if kind == LinkInput.OBJECT:
            read_bytes = reader.read_bytes
            try:
                texts = iter(list(reader.read(name, image)))
            except ImageError as err:
                if err.status != CudaError.NO_BINARY_FOR_GPU:
                    raise
                left_out = err
                reader.read_bytes = read_bytes  # its other texts are left out, too
                continue
        elif kind == LinkInput.BINARY or container.is_container(image):
            texts = reader.read(name, image)
        else:
            texts = reader.read_plain(name, image)
        for part, text in texts:
            yield from linking.split_files(part, text)
    if left_out is not None and reader.read_bytes == 0:
        raise left_out
