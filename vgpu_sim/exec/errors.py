"""What can go wrong before and while a kernel runs. Every executor raises these and no others.

What a kernel did is named after it (a fault, a trap); what an executor cannot do ends in ``Error``.

::

    ExecutionError
    ├── KernelError            the kernel itself failed; its context is lost
    │   ├── AddressFault       CUDA_ERROR_ILLEGAL_ADDRESS (700)
    │   ├── MisalignedFault    CUDA_ERROR_MISALIGNED_ADDRESS (716)
    │   ├── BarrierFault       CUDA_ERROR_LAUNCH_FAILED (719)
    │   └── Trap               CUDA_ERROR_LAUNCH_FAILED (719)
    ├── BadAddress             raised by a memory; an executor turns it into an AddressFault
    ├── UnsupportedError       valid code that the executor cannot run; nothing was executed
    ├── PlanError              a block shape that no kernel has, or a plan that does not fit it
    └── CodeGenerationError    a defect of ours: LLVM refused what was generated, say
"""

from vgpu_sim.isa import Space

Block = tuple[int, int, int]


class ExecutionError(Exception):
    """Base of all errors of an executor."""


class KernelError(ExecutionError):
    """A thread did what ends its context. ``word`` is the instruction's index in the function,
    ``thread`` the thread's in its block; None where it is not known."""

    def __init__(self, message: str, word: int, block: Block, thread: Block | None = None) -> None:
        super().__init__(message)
        self.word = word
        self.block = block
        self.thread = thread


class AddressFault(KernelError):
    """A lane touched memory that is not there."""

    def __init__(
        self, address: int, word: int, block: Block, space: Space, thread: Block | None = None
    ) -> None:
        super().__init__(
            f"illegal {space.name.lower()} address {address:#x} at word {word} in block {block}",
            word,
            block,
            thread,
        )
        self.address = address
        self.space = space


class MisalignedFault(KernelError):
    """A lane accessed ``size`` bytes at an address that is no multiple of that."""

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
            f" at word {word} in block {block}",
            word,
            block,
            thread,
        )
        self.address = address
        self.size = size


class Trap(KernelError):
    """A lane executed TRAP."""

    def __init__(self, word: int, block: Block, thread: Block | None = None) -> None:
        super().__init__(f"trap at word {word} in block {block}", word, block, thread)


class BarrierFault(KernelError):
    """Threads used barriers as no program may, or all wait at barriers that cannot complete."""

    def __init__(self, what: str, word: int, block: Block, thread: Block | None = None) -> None:
        super().__init__(f"{what} at word {word} in block {block}", word, block, thread)
        self.what = what


class BadAddress(ExecutionError):
    """A memory does not hold all bytes of an access; ``address`` is where the access begins."""

    def __init__(self, address: int) -> None:
        super().__init__(f"no memory at {address:#x}")
        self.address = address


class UnsupportedError(ExecutionError):
    """Valid code that this executor cannot run; ``word`` is the first such instruction, or None."""

    def __init__(self, what: str, function: str, word: int | None = None) -> None:
        where = function if word is None else f"{function}, word {word}"
        super().__init__(f"{where}: {what} is not supported yet")
        self.what = what
        self.function = function
        self.word = word


class PlanError(ExecutionError, ValueError):
    """A block shape that no kernel has, or a plan that does not fit it."""


class CodeGenerationError(ExecutionError):
    """A defect of ours: LLVM refused the generated text, or an object that came out of it, or code
    came to be lowered that ``refusals`` names."""
