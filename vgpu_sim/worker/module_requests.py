"""The client's requests about modules: load, link, load a kernel, unload."""

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.worker import memory, wire
from vgpu_sim.worker.channel import Channel
from vgpu_sim.worker.chunks import OutOfBudgetError
from vgpu_sim.worker.compiling.requests import Compilations, Compiled
from vgpu_sim.worker.modules import links, module_table
from vgpu_sim.worker.modules.images import Image, ImageError, unpack
from vgpu_sim.worker.programs import LazyKernel, Loaded, NoKernelError, Programs
from vgpu_sim.worker.wire import Request

_EVENT_CHARACTERS: Final = 1000


class ModuleRequests:
    """Answers the requests of one client, on the worker's main thread.

    ``attend`` is called repeatedly while a request waits for the end of a kernel.
    """

    def __init__(
        self,
        client: socket.socket,
        config: WorkerConfig,
        channel: Channel,
        programs: Programs,
        attend: Callable[[], None],
    ) -> None:
        self._client = client
        self._config = config
        self._channel = channel
        self._programs = programs
        self._attend = attend
        self._compilations = Compilations()

    def load(self, request: Request) -> None:
        """Load an image that need not be compiled, or start to compile it; ``finish`` answers
        after a compilation.
        """
        payload = request.payload_as(messages.ModuleLoad)
        descriptor = request.descriptor
        assert descriptor is not None  # ``wire`` has checked it

        def load_now() -> Loaded | None:
            if not 0 < payload.image_bytes <= messages.MAX_IMAGE_BYTES:
                raise ImageError(CudaError.INVALID_IMAGE, "the image's size is out of range\n")
            image = unpack(
                memory.read_exactly(descriptor, payload.image_bytes), self._config.capability
            )
            lazily = bool(payload.flags & messages.LoadFlag.LAZY)
            loaded_module = self._programs.load_quickly(image, lazily=lazily)
            compile_it = partial(self._programs.compile, image, lazily=lazily)
            if loaded_module is not None or self._compilations.start(request, compile_it):
                return loaded_module
            return self._programs.load_image(compile_it())

        try:
            self._answer(request, load_now)
        finally:
            os.close(descriptor)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a compilation has ended."""
        return self._compilations.fileno()

    def take(self) -> list[tuple[Request, Compiled | Exception]]:
        """Return the requests whose compilation has ended, for ``finish``."""
        return self._compilations.take()

    def finish(self, request: Request, outcome: Compiled | Exception) -> None:
        """Answer a request after a compilation."""

        def place() -> Loaded:
            if isinstance(outcome, Exception):
                raise outcome
            if request.kind != MessageType.MODULE_KERNEL:
                return self._programs.load_image(outcome)
            assert isinstance(outcome, Image)
            payload = request.payload_as(messages.ModuleKernel)
            table, log = self._programs.load_kernel(payload.module, payload.index, outcome)
            return payload.module, table, log

        self._answer(request, place)

    def load_kernel(self, request: Request) -> None:
        """Load a kernel of a lazy module, or start to compile it."""
        payload = request.payload_as(messages.ModuleKernel)

        def load_now() -> Loaded | None:
            kernel = self._programs.find_kernel(payload.module, payload.index)
            if isinstance(kernel, bytes):
                return payload.module, kernel, ""
            compile_it = partial(self._programs.compile_kernel, kernel)
            if self._compilations.start(request, compile_it):
                return None
            table, log = self._programs.load_kernel(payload.module, payload.index, compile_it())
            return payload.module, table, log

        self._answer(request, load_now)

    def _answer(self, request: Request, load: Callable[[], Loaded | None]) -> None:
        try:
            loaded = load()
        except ImageError as err:
            if err.status == CudaError.NOT_SUPPORTED:
                self._channel.report_event("unsupported_ptx", message=err.log[:_EVENT_CHARACTERS])
            table = module_table.log_only(err.log, self._lazy_kernel(request))
            self._reply_table(request, err.status, 0, table)
        except OutOfBudgetError as err:
            table = module_table.log_only(f"{err}\n")
            self._reply_table(request, CudaError.OUT_OF_MEMORY, 0, table)
        except NoKernelError:
            self._reply_table(request, CudaError.INVALID_HANDLE, 0, module_table.log_only(""))
        except (OSError, ValueError) as err:
            table = module_table.log_only(f"the image cannot be read: {err}\n")
            self._reply_table(request, CudaError.INVALID_IMAGE, 0, table)
        else:
            if loaded is None:
                return
            module, table, log = loaded
            if log:  # unsupported kernels; a client that looks one up gets the reason
                self._channel.report_event("unsupported_ptx", message=log[:_EVENT_CHARACTERS])
            self._reply_table(request, CudaError.SUCCESS, module, table)

    def _lazy_kernel(self, request: Request) -> str:
        """Return the name of the kernel that a request loads; "" if it loads a module, or if the
        module has been unloaded meanwhile.
        """
        if request.kind != MessageType.MODULE_KERNEL:
            return ""
        body = request.payload_as(messages.ModuleKernel)
        try:
            kernel = self._programs.find_kernel(body.module, body.index)
        except NoKernelError:
            return ""
        return kernel.name if isinstance(kernel, LazyKernel) else ""

    def link(self, request: Request) -> None:
        payload = request.payload_as(messages.ModuleLoad)
        descriptor = request.descriptor
        assert descriptor is not None  # ``wire`` has checked it
        registers, flag = divmod(payload.flags, 1 << messages.LINK_REGISTERS_SHIFT)
        check_only = flag == messages.LinkFlag.CHECK
        try:
            if not 0 < payload.image_bytes <= messages.MAX_IMAGE_BYTES:
                raise ImageError(CudaError.INVALID_IMAGE, "the inputs' size is out of range\n")
            data = memory.read_exactly(descriptor, payload.image_bytes)
            linked = links.link(
                data, self._config.capability, check_only=check_only, max_registers=registers
            )
        except ImageError as err:
            self._reply_table(request, err.status, 0, module_table.log_only(err.log))
        except (OSError, ValueError) as err:
            table = module_table.log_only(f"the inputs cannot be read: {err}\n")
            self._reply_table(request, CudaError.INVALID_IMAGE, 0, table)
        else:
            self._reply_table(request, CudaError.SUCCESS, 0, linked)
        finally:
            os.close(descriptor)

    def unload(self, request: Request) -> None:
        try:
            self._programs.unload(request.payload_as(messages.Handle).handle, self._attend)
        except KeyError:
            self._reply(request, CudaError.INVALID_HANDLE)
        else:
            self._reply(request, CudaError.SUCCESS)

    def _reply_table(self, request: Request, status: CudaError, module: int, table: bytes) -> None:
        descriptor = memory.create_constant("tessera-module-table", table)
        try:
            payload = messages.ModuleTable(module, len(table))
            self._reply(request, status, payload, (descriptor,))
        finally:
            os.close(descriptor)

    def _reply(
        self,
        request: Request,
        status: CudaError,
        payload: messages.ModuleTable | None = None,
        descriptors: tuple[int, ...] = (),
    ) -> None:
        kind = MessageType(request.kind + 1)
        wire.reply(self._client, kind, request.id, status, payload, descriptors)
