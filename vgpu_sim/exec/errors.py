"""The errors of executors, before and during a kernel. Every executor raises these and no others.

Errors of a kernel are named after the event (a fault, a trap); limits of an executor end in
``Error``.

::

    ExecutionError
    ├── KernelError            the kernel itself failed; its context is lost
    │   ├── AddressFault       CUDA_ERROR_ILLEGAL_ADDRESS (700)
    │   ├── MisalignedFault    CUDA_ERROR_MISALIGNED_ADDRESS (716)
    │   ├── BarrierFault       CUDA_ERROR_LAUNCH_FAILED (719)
    │   └── Trap               CUDA_ERROR_LAUNCH_FAILED (719)
    ├── BadAddress             raised by a memory; an executor turns it into an AddressFault
    ├── UnsupportedError       valid code that the executor cannot run; nothing was executed
    ├── PlanError              an invalid block shape, or a plan that is not legal for it
    └── CodeGenerationError    a defect of Tessera, such as generated text that LLVM rejects
"""

from vgpu_sim.isa import Space

Block = tuple[int, int, int]


class ExecutionError(Exception):
    """Base of all errors of an executor."""


class KernelError(ExecutionError):
    """An event in a thread of a kernel, such as a fault, that ends the context.

    ``word`` is the instruction's index in the function, and ``thread`` the thread's index in its
    block. Each is None if it is unknown.
    """

    def __init__(self, message: str, word: int, block: Block, thread: Block | None = None) -> None:
        super().__init__(message)
        self.word = word
        self.block = block
        self.thread = thread


class AddressFault(KernelError):
    """A lane accessed memory that does not exist."""

    def __init__(
        self, address: int, word: int, block: Block, space: Space, thread: Block | None = None
    ) -> None:
        super().__init__(
            f"illegal {space.name.lower()} address {address:#x}"
            f" at instruction {word} in block {block}",
            word,
            block,
            thread,
        )
        self.address = address
        self.space = space


class MisalignedFault(KernelError):
    """A lane accessed ``size`` bytes at an address that is not a multiple of ``size``."""

    def __init__(
        self,
        address: int,
        size: int,
        word: int,
        block: Block,
        space: Space,
        thread: Block | None = None,
    ) -> None:
        super().__init__(
            f"misaligned {space.name.lower()} address {address:#x} of an access of {size} bytes"
            f" at instruction {word} in block {block}",
            word,
            block,
            thread,
        )
        self.address = address
        self.size = size


class Trap(KernelError):
    """A lane executed TRAP."""

    def __init__(self, word: int, block: Block, thread: Block | None = None) -> None:
        super().__init__(f"trap at instruction {word} in block {block}", word, block, thread)


class BarrierFault(KernelError):
    """Threads misused barriers, or all wait at barriers that cannot complete."""

    def __init__(
        self, description: str, word: int, block: Block, thread: Block | None = None
    ) -> None:
        super().__init__(
            f"{description} at instruction {word} in block {block}", word, block, thread
        )
        self.what = description


class BadAddress(ExecutionError):
    """Some bytes of an access do not exist in memory; ``address`` is where the access begins."""

    def __init__(self, address: int) -> None:
        super().__init__(f"no memory at {address:#x}")
        self.address = address


class UnsupportedError(ExecutionError):
    """Valid code that this executor cannot run.

    ``word`` is the index of the first instruction that it cannot run, or None.
    """

    def __init__(self, feature: str, function: str, word: int | None = None) -> None:
        where = function if word is None else f"{function}, instruction {word}"
        super().__init__(f"{where}: {feature} is not supported yet")
        self.what = feature
        self.function = function
        self.word = word


class PlanError(ExecutionError, ValueError):
    """An invalid block shape, or a plan that is not legal for it."""


class CodeGenerationError(ExecutionError):
    """A defect of Tessera: LLVM rejected generated text or its object code, or the JIT generated
    code for an instruction that ``refusals`` rejects.
    """
