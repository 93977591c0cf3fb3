"""Inputs of a link: the PTX texts in containers, fat binaries, objects of the host and archives.

Formats: System V ABI, "ELF" and "ar". All sizes come from a program, so each one is checked before
it is used.
"""

import struct
from collections.abc import Iterator
from typing import Final

from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import MAX_IMAGE_BYTES, NO_PTX_REMEDY
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
# More than the magic number of a container.
_MAGIC_BYTES: Final = 64
# One character that is not of Latin-1 makes Python keep the whole text in four bytes each. In PTX
# it can only be in comments and names of files.
_MAX_WIDE_BYTES: Final = MAX_IMAGE_BYTES // 4
# The member of libcudadevrt.a. The driver has the functions itself (compiler/system_calls.ptx).
_DEVICE_RUNTIME: Final = "cuda_device_runtime.o"


class Reader:
    """Reads the PTX texts of a link's inputs, which have at most ``MAX_IMAGE_BYTES`` in all.

    What remains of the limit bounds the next text before it is decompressed.
    """

    def __init__(self, capability: tuple[int, int]) -> None:
        self._capability = capability
        self.read_bytes = 0

    def read(self, name: str, image: bytes) -> Iterator[tuple[str, str]]:
        """Yield the PTX texts of an input, each with its name.

        An archive's member without PTX is left out: if its symbols are needed, the linker reports
        them.

        Raises:
            ImageError: the CUresult is 209 for an input without PTX for the device, and 200 for a
                damaged one, or if the texts are too large.
        """
        if not image.startswith(_ARCHIVE_MAGIC):
            yield from self._read_one(name, memoryview(image))
            return
        for member, data in _members(name, image):
            if member == _DEVICE_RUNTIME:
                continue
            try:
                yield from self._read_one(f"{name}({member})", data)
            except ImageError as err:
                if err.status != CudaError.NO_BINARY_FOR_GPU:
                    raise

    def read_plain(self, name: str, image: bytes) -> Iterator[tuple[str, str]]:
        """Yield an input that is PTX."""
        yield name, self._decode(name, image.split(b"\0", 1)[0])

    def _read_one(self, name: str, image: memoryview) -> Iterator[tuple[str, str]]:
        if _starts_with(image, _ELF_MAGIC):
            section = _find_section(name, image)
            try:
                for binary in fat_binary.split(section):
                    yield name, self._decode(name, self._unpack(name, binary))
            except fat_binary.FatBinaryError as err:
                log = f"{name}: damaged object: {err}\n"
                raise ImageError(CudaError.INVALID_IMAGE, log) from err
        elif _starts_with(image, fat_binary.MAGIC):
            yield name, self._decode(name, self._unpack(name, image))
        elif container.is_container(bytes(image[:_MAGIC_BYTES])):
            yield name, self._decode(name, _source(name, _to_bytes(image)))
        else:
            log = f"{name}: only PTX, and files that contain PTX, can be linked\n"
            raise ImageError(CudaError.NO_BINARY_FOR_GPU, log)

    def _unpack(self, name: str, binary: memoryview) -> bytes:
        try:
            return unpack(binary, self._capability, MAX_IMAGE_BYTES - self.read_bytes)
        except fat_binary.TooLargeError as err:
            raise _too_large(name) from err

    def _decode(self, name: str, text: bytes) -> str:
        self._count(name, len(text))
        if len(text) > _MAX_WIDE_BYTES and not text.isascii():
            return text.decode("latin-1")
        return text.decode(errors="replace")

    def _count(self, name: str, size: int) -> None:
        self.read_bytes += size
        if self.read_bytes > MAX_IMAGE_BYTES:
            raise _too_large(name)


def _starts_with(image: memoryview, magic: bytes) -> bool:
    return bytes(image[: len(magic)]) == magic


def _to_bytes(image: memoryview) -> bytes:
    """Return the bytes of an image, without a copy if it is not a part of another one."""
    whole = image.obj
    return whole if isinstance(whole, bytes) and len(whole) == len(image) else bytes(image)


def _too_large(name: str) -> ImageError:
    log = f"{name}: the texts of a link are larger than {MAX_IMAGE_BYTES >> 20} MiB\n"
    return ImageError(CudaError.INVALID_IMAGE, log)


def _source(name: str, image: bytes) -> bytes:
    try:
        source = container.decode_source(image)
    except IsaError as err:
        raise ImageError(CudaError.INVALID_IMAGE, f"{name}: damaged container: {err}\n") from err
    if not source:
        log = f"{name}: a container without its PTX cannot be linked\n"
        raise ImageError(CudaError.NO_BINARY_FOR_GPU, log)
    return source


def _find_section(name: str, image: memoryview) -> memoryview:
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
    names = _contents(image, sections[names_index]) if names_index < count else memoryview(b"")
    for section in sections:
        label = bytes(names[section[0] : section[0] + _LONGEST_NAME + 1])
        if label.split(b"\0", 1)[0] in _FAT_SECTIONS:
            return _contents(image, section)
    raise ImageError(CudaError.NO_BINARY_FOR_GPU, f"{name}: an object without GPU code\n")


def _contents(image: memoryview, section: tuple[int, ...]) -> memoryview:
    kind, offset, size = section[1], section[4], section[5]
    return image[:0] if kind == _NO_BITS else image[offset : offset + size]


def _members(name: str, image: bytes) -> Iterator[tuple[str, memoryview]]:
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
        data = memoryview(image)[at : at + size]
        at += size + size % 2
        label = title.rstrip()
        if label == b"//":
            long_names = bytes(data)
        elif label not in (b"/", b"/SYM64/"):
            yield _name(label, long_names), data


def _name(label: bytes, long_names: bytes) -> str:
    """Return a member's name: ``/123`` is an offset in the list of long names."""
    if label.startswith(b"/") and label[1:].isdigit():
        label = long_names[int(label[1:]) :].split(b"\n", 1)[0]
    return label.removesuffix(b"/").decode(errors="replace")
