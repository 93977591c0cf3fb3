"""Converts images passed to cuModuleLoadData to containers, or fails with an error that has a
log.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from vgpu_sim.compiler import compile_ptx, render
from vgpu_sim.compiler.errors import PtxError, TargetError, UnsupportedPtxError
from vgpu_sim.compiler.lazy import LEAST_BYTES, LazyFile, open_file
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.ports import FaultSite
from vgpu_sim.hal.messages import MAX_IMAGE_BYTES, NO_PTX_REMEDY
from vgpu_sim.isa import Diagnostic, Module, container
from vgpu_sim.isa.errors import IsaError
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modules import fat_binary
from vgpu_sim.worker.modules.container_cache import ContainerCache
from vgpu_sim.worker.modules.module_summary import ModuleSummary, RefusedSummary, summarise
from vgpu_sim.worker.usage import Usage

_ELF_MAGIC: Final = b"\x7fELF"
_ELF_MACHINE: Final = slice(18, 20)  # e_machine; little-endian, as CUDA's always are
_MACHINE_CUDA: Final = 190
_MOST_WORDS_KEPT: Final = 1 << 14  # each is about half a kilobyte
MAX_LOG_BYTES: Final = 1 << 20
_MAX_REFUSED_LOG_BYTES: Final = 16 << 10  # of one kernel
_DIGEST_BYTES: Final = 32

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Image:
    """A loadable module: its summary, and the bytes for the backends.

    ``module`` is the decoded module, if it is available and small.
    """

    summary: ModuleSummary
    container: bytes
    module: Module | None = None

    def decode(self) -> Module:
        """Return the decoded module, including its code."""
        return container.decode(self.container)

    def decode_variables(self) -> Module:
        """Return the decoded module without its kernels."""
        return container.decode_variables(self.container)


@dataclass(frozen=True, slots=True)
class LazyImage:
    """A loadable module whose kernels are compiled one at a time.

    ``shared`` is the module without kernels; ``size`` is that of the text, which is kept.
    """

    file: LazyFile
    shared: Image
    digest: bytes
    size: int


class ImageError(Exception):
    """A module that cannot be loaded; cuModuleLoadDataEx returns the log to its caller."""

    def __init__(self, status: CudaError, log: str) -> None:
        super().__init__(log)
        self.status = status
        self.log = log


class Images:
    """Converts images to containers for one compute capability."""

    def __init__(
        self,
        capability: tuple[int, int],
        cache: ContainerCache,
        refusals: Callable[[Module], Sequence[FaultSite]],
        usage: Usage,
    ) -> None:
        self._usage = usage
        self._capability = capability
        self._cache = cache
        self._refusals = refusals

    def read_quickly(self, data: bytes) -> Image | None:
        """Read an image that need not be compiled; return None for any other.

        Raises:
            ImageError: as ``read``.
        """
        if not _is_text(data):
            return self.read(data)
        stored = self._cache.load(_text(data))
        if stored is None:
            self._usage.compiled += 1
            return None
        self._usage.cached += 1
        return Image(*stored)

    def compile(self, data: bytes) -> Image:
        """Compile an image for which ``read_quickly`` returned None; callable on any thread.

        Raises:
            ImageError: as ``read``.
        """
        text = _text(data)
        return self._make(
            text, lambda: compile_ptx(text, capability=self._capability, partial=True)
        )

    def may_be_lazy(self, data: bytes) -> bool:
        """True if ``open_lazily`` may be able to open an image."""
        return len(data) >= LEAST_BYTES and _is_text(data)

    def open_lazily(self, data: bytes) -> LazyImage | None:
        """Open an image without compiling its kernels; return None for one that must be compiled
        as a whole. Callable on any thread.

        Raises:
            ImageError: as ``read``, for errors outside of functions.
        """
        text = _text(data)
        file = _raise_image_errors(lambda: open_file(text, self._capability))
        if file is None:
            return None
        shared = self._image(file.shared, container.encode(file.shared))
        digest = hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
        return LazyImage(file, shared, digest, len(text))

    def compile_kernel(self, image: LazyImage, name: str) -> Image:
        """Return a kernel of a lazy module, from the cache or compiled; callable on any thread.

        Raises:
            ImageError: as ``read``, for errors in the kernel and the functions that it reaches.
        """
        key = b"\0".join((b"kernel", image.digest, name.encode()))  # no text has a NUL
        stored = self._cache.load(key)
        if stored is not None:
            return Image(*stored)
        return self._make(key, lambda: image.file.compile(name))

    def with_module(self, image: Image, module: Module) -> Image:
        """Return an image with another module, which differs only in the places of variables."""
        return Image(summarise(module, image.summary.refused), container.encode(module), module)

    def _make(self, key: bytes, compile_module: Callable[[], Module]) -> Image:
        module = _raise_image_errors(compile_module)
        image = self._image(module, container.encode(module))
        self._cache.store(key, image.summary, image.container)
        return image

    def read(self, data: bytes) -> Image:
        """Read PTX text, a fat binary or a container. The summary names kernels that are not
        supported yet.

        Raises:
            ImageError: the CUresult is 218 for a text that is not PTX, 801 for PTX of which nothing
                can be supported, 209 for machine code of other devices or a newer target, and 200
                for a damaged container.
        """
        if container.is_container(data):
            return self._from_container(data)
        if data.startswith(_ELF_MAGIC):
            if int.from_bytes(data[_ELF_MACHINE], "little") != _MACHINE_CUDA:
                raise ImageError(
                    CudaError.INVALID_IMAGE, "the image is a program or library of the host\n"
                )
            raise ImageError(
                CudaError.NO_BINARY_FOR_GPU,
                f"the image is a cubin (machine code of other hardware): {NO_PTX_REMEDY}\n",
            )
        data = unpack(data, self._capability)
        image = self.read_quickly(data)
        return image if image is not None else self.compile(data)

    def _from_container(self, data: bytes) -> Image:
        try:
            module = container.decode(data)
        except IsaError as err:
            raise ImageError(CudaError.INVALID_IMAGE, f"damaged container: {err}\n") from err
        if module.required_capability > self._capability:
            needed_capability, own = (
                _format_capability(module.required_capability),
                _format_capability(self._capability),
            )
            raise ImageError(
                CudaError.NO_BINARY_FOR_GPU,
                f"the container needs compute capability {needed_capability},"
                f" this device has {own}\n",
            )
        return self._image(module, data)

    def _image(self, module: Module, container_bytes: bytes) -> Image:
        refused = (*_refused_by_compiler(module), *self._refused_by_backend(module))
        words = sum(len(function.code) for function in module.functions)
        kept_module = module if words <= _MOST_WORDS_KEPT else None
        return Image(summarise(module, refused), container_bytes, kept_module)

    def _refused_by_backend(self, module: Module) -> Iterator[RefusedSummary]:
        reasons_by_name: dict[str, list[Diagnostic]] = defaultdict(list)
        for site in self._refusals(module):
            reasons_by_name[site.function].append(Diagnostic(site.ptx_line, 0, site.message))
        for name, reasons in reasons_by_name.items():
            yield RefusedSummary(name, True, render(reasons, max_bytes=_MAX_REFUSED_LOG_BYTES))


def _raise_image_errors(make: Callable[[], Result]) -> Result:
    """Return what the compiler makes, with its errors as ``ImageError``."""
    try:
        return make()
    except UnsupportedPtxError as err:
        raise ImageError(CudaError.NOT_SUPPORTED, err.log(MAX_LOG_BYTES)) from err
    except TargetError as err:
        raise ImageError(CudaError.NO_BINARY_FOR_GPU, err.log(MAX_LOG_BYTES)) from err
    except PtxError as err:
        raise ImageError(CudaError.INVALID_PTX, err.log(MAX_LOG_BYTES)) from err


def unpack(
    data: bytes | memoryview, capability: tuple[int, int], limit_bytes: int = MAX_IMAGE_BYTES
) -> bytes:
    """Return the PTX that a fat binary has for a compute capability; any other image unchanged.

    Raises:
        fat_binary.TooLargeError: the PTX has more than ``limit_bytes``, which are less than an
            image may have.
        ImageError: the CUresult is 209 if the fat binary has no such PTX, and 200 if it is damaged.
    """
    if data[: len(fat_binary.MAGIC)] != fat_binary.MAGIC:
        return bytes(data)  # the same object, if it is one of bytes
    try:
        return fat_binary.choose_ptx(data, capability, limit_bytes)
    except fat_binary.NoPtxError as err:
        raise ImageError(CudaError.NO_BINARY_FOR_GPU, f"{err}\n") from err
    except fat_binary.FatBinaryError as err:
        if isinstance(err, fat_binary.TooLargeError) and limit_bytes < MAX_IMAGE_BYTES:
            raise
        raise ImageError(CudaError.INVALID_IMAGE, f"damaged fat binary: {err}\n") from err


def _refused_by_compiler(module: Module) -> Iterator[RefusedSummary]:
    for refusal in module.refused:
        log = render(refusal.reasons, max_bytes=_MAX_REFUSED_LOG_BYTES)
        yield RefusedSummary(refusal.name, refusal.is_kernel, log)


def _is_text(data: bytes) -> bool:
    return not (container.is_container(data) or data.startswith((_ELF_MAGIC, fat_binary.MAGIC)))


def _text(data: bytes) -> bytes:
    return data.split(b"\0", 1)[0] if b"\0" in data else data


def _format_capability(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
