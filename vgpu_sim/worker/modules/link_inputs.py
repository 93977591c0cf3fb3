"""Inputs of a link: the PTX texts in containers, fat binaries, objects of the host and archives.

Formats: System V ABI, "ELF" and "ar". All sizes come from a program, so each one is checked before
it is used.
"""

import struct
from collections.abc import Iterator
from typing import Final

from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import NO_PTX_REMEDY
from vgpu_sim.isa import container
from vgpu_sim.isa.errors import IsaError
from vgpu_sim.worker.modules import fat_binary
from vgpu_sim.worker.modules.images import ImageError, unpack

_ELF_MAGIC: Final = b"\x7fELF\2\1\1"  # 64 bits, little-endian
_ELF_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_NO_BITS: Final = 8
_MACHINE_CUDA: Final = 190
_MAX_SECTIONS: Final = 1 << 16
# Of whole programs, and of objects that are linked with others (-rdc=true).
_FAT_SECTIONS: Final = frozenset({b".nv_fatbin", b"__nv_relfatbin"})
_LONGEST_NAME: Final = max(map(len, _FAT_SECTIONS))
_ARCHIVE_MAGIC: Final = b"!<arch>\n"
_MEMBER: Final = struct.Struct("16s12s6s6s8s10s2s")
_MEMBER_END: Final = b"`\n"
_MAX_MEMBERS: Final = 4096
# The member of libcudadevrt.a. The driver has the functions itself (compiler/system_calls.ptx).
_DEVICE_RUNTIME: Final = "cuda_device_runtime.o"


def read_texts(name: str, image: bytes, capability: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Yield the PTX texts of an input, each with its name.

    An archive's member without PTX is left out: if its symbols are needed, the linker reports them.

    Raises:
        ImageError: the CUresult is 209 for an input without PTX for the device, and 200 for a
            damaged one.
    """
    if not image.startswith(_ARCHIVE_MAGIC):
        yield from _read_one(name, image, capability)
        return
    for member, data in _members(name, image):
        if member == _DEVICE_RUNTIME:
            continue
        try:
            yield from _read_one(f"{name}({member})", data, capability)
        except ImageError as err:
            if err.status != CudaError.NO_BINARY_FOR_GPU:
                raise


def _read_one(name: str, image: bytes, capability: tuple[int, int]) -> Iterator[tuple[str, str]]:
    if image.startswith(_ELF_MAGIC):
        section = _find_section(name, image)
        try:
            for one in fat_binary.split(section):
                yield name, _decode(unpack(one, capability))
        except fat_binary.FatBinaryError as err:
            raise ImageError(CudaError.INVALID_IMAGE, f"{name}: damaged object: {err}\n") from err
    elif image.startswith(fat_binary.MAGIC):
        yield name, _decode(unpack(image, capability))
    elif container.is_container(image):
        yield name, _source(name, image)
    else:
        log = f"{name}: only PTX, and files that contain PTX, can be linked\n"
        raise ImageError(CudaError.NO_BINARY_FOR_GPU, log)


def _decode(text: bytes) -> str:
    return text.split(b"\0", 1)[0].decode(errors="replace")


def _source(name: str, image: bytes) -> str:
    try:
        source = container.decode(image).source
    except IsaError as err:
        raise ImageError(CudaError.INVALID_IMAGE, f"{name}: damaged container: {err}\n") from err
    if not source:
        log = f"{name}: a container without its PTX cannot be linked\n"
        raise ImageError(CudaError.NO_BINARY_FOR_GPU, log)
    return source


def _find_section(name: str, image: bytes) -> bytes:
    """Return the contents of the section of an object that has fat binaries."""
    if len(image) < _ELF_HEADER.size:
        raise ImageError(CudaError.INVALID_IMAGE, f"{name}: the object ends in its header\n")
    fields = _ELF_HEADER.unpack_from(image)
    machine, offset, size, count, names_index = fields[2], fields[6], *fields[11:14]
    if machine == _MACHINE_CUDA:
        log = f"{name} is a cubin (machine code of other hardware): {NO_PTX_REMEDY}\n"
        raise ImageError(CudaError.NO_BINARY_FOR_GPU, log)
    if count and (size != _SECTION.size or offset + size * count > len(image)):
        raise ImageError(CudaError.INVALID_IMAGE, f"{name}: damaged section headers\n")
    sections = [_SECTION.unpack_from(image, offset + size * index) for index in range(count)]
    names = _contents(image, sections[names_index]) if names_index < count else b""
    for section in sections:
        label = names[section[0] : section[0] + _LONGEST_NAME + 1]
        if label.split(b"\0", 1)[0] in _FAT_SECTIONS:
            return _contents(image, section)
    raise ImageError(CudaError.NO_BINARY_FOR_GPU, f"{name}: an object without GPU code\n")


def _contents(image: bytes, section: tuple[int, ...]) -> bytes:
    kind, offset, size = section[1], section[4], section[5]
    return b"" if kind == _NO_BITS else image[offset : offset + size]


def _members(name: str, image: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an archive, but not its symbol table and list of long names."""
    at, long_names, count = len(_ARCHIVE_MAGIC), b"", 0
    while at < len(image):
        count += 1
        damaged = ImageError(CudaError.INVALID_IMAGE, f"{name}: damaged archive\n")
        if len(image) - at < _MEMBER.size or count > _MAX_MEMBERS:
            raise damaged
        title, *_, digits, end = _MEMBER.unpack_from(image, at)
        at += _MEMBER.size
        if end != _MEMBER_END or not digits.strip().isdigit():
            raise damaged
        size = int(digits)
        if size > len(image) - at:
            raise damaged
        data = image[at : at + size]
        at += size + size % 2
        label = title.rstrip()
        if label == b"//":
            long_names = data
        elif label not in (b"/", b"/SYM64/"):
            yield _name(label, long_names), data


def _name(label: bytes, long_names: bytes) -> str:
    """Return a member's name: ``/123`` is an offset in the list of long names."""
    if label.startswith(b"/") and label[1:].isdigit():
        label = long_names[int(label[1:]) :].split(b"\n", 1)[0]
    return label.removesuffix(b"/").decode(errors="replace")
