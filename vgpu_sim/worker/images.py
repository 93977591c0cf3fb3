"""What cuModuleLoadData is given, and what becomes of it: a container, or an error with a log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.compiler.errors import PtxError, TargetError, UnsupportedPtxError
from vgpu_sim.hal.cuda import CudaError
from vgpu_sim.hal.ports import FaultSite
from vgpu_sim.isa import Module, container
from vgpu_sim.isa.errors import IsaError
from vgpu_sim.worker.container_cache import ContainerCache
from vgpu_sim.worker.module_summary import ModuleSummary, summarise
from vgpu_sim.worker.usage import Usage

_ELF_MAGIC: Final = b"\x7fELF"
_ELF_MACHINE: Final = slice(18, 20)  # e_machine; little-endian, as CUDA's always are
_MACHINE_CUDA: Final = 190
_FATBIN_MAGICS: Final = (b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46")
_MAX_LOG_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Image:
    """A module that can be loaded: what is to be known of it, and the bytes that backends take."""

    summary: ModuleSummary
    container: bytes

    def decode(self) -> Module:
        """Return the module, code and all."""
        return container.decode(self.container)


class ImageError(Exception):
    """A module that cannot be loaded; the log is what cuModuleLoadDataEx hands to its caller."""

    def __init__(self, status: CudaError, log: str) -> None:
        super().__init__(log)
        self.status = status
        self.log = log


class Images:
    """Turns images into containers for one compute capability."""

    def __init__(
        self,
        capability: tuple[int, int],
        cache: ContainerCache,
        refusals: Callable[[bytes], Sequence[FaultSite]],
        usage: Usage,
    ) -> None:
        self._usage = usage
        self._capability = capability
        self._cache = cache
        self._refusals = refusals

    def read(self, data: bytes) -> Image:
        """Read PTX text or a container.

        Raises:
            ImageError: 218 for a text that is not PTX, 801 for PTX that is not supported yet, 209
                for machine code of other devices or a newer target, 200 for a damaged container.
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
                "the image is a cubin (machine code of other hardware); load its PTX instead\n",
            )
        if data.startswith(_FATBIN_MAGICS):
            raise ImageError(
                CudaError.NO_BINARY_FOR_GPU,
                "the image is a fat binary, which is not supported; load its PTX instead\n",
            )
        return self._from_ptx(data.split(b"\0", 1)[0])

    def _from_container(self, data: bytes) -> Image:
        try:
            module = container.decode(data)
        except IsaError as err:
            raise ImageError(CudaError.INVALID_IMAGE, f"damaged container: {err}\n") from err
        if module.required_capability > self._capability:
            wanted, own = _dotted(module.required_capability), _dotted(self._capability)
            raise ImageError(
                CudaError.NO_BINARY_FOR_GPU,
                f"the container needs compute capability {wanted}, this device has {own}\n",
            )
        self._require_backend(data)
        return Image(summarise(module), data)

    def _from_ptx(self, text: bytes) -> Image:
        stored = self._cache.load(text)
        if stored is not None:
            self._usage.cached += 1
            return Image(*stored)
        self._usage.compiled += 1
        module = self._compile(text)
        image = Image(summarise(module), container.encode(module))
        self._require_backend(image.container)
        self._cache.store(text, image.summary, image.container)
        return image

    def _require_backend(self, container_bytes: bytes) -> None:
        found = self._refusals(container_bytes)
        if found:
            log = "".join(f"<ptx>:{site.ptx_line}: {site.message}\n" for site in found)
            raise ImageError(CudaError.NOT_SUPPORTED, log[:_MAX_LOG_BYTES])

    def _compile(self, text: bytes) -> Module:
        try:
            return compile_ptx(text, capability=self._capability)
        except UnsupportedPtxError as err:
            raise ImageError(CudaError.NOT_SUPPORTED, err.log(_MAX_LOG_BYTES)) from err
        except TargetError as err:
            raise ImageError(CudaError.NO_BINARY_FOR_GPU, err.log(_MAX_LOG_BYTES)) from err
        except PtxError as err:
            raise ImageError(CudaError.INVALID_PTX, err.log(_MAX_LOG_BYTES)) from err


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
