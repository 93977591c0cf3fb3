"""What can go wrong while a kernel runs. Every executor raises these and no others.

::

    ExecutionError
    ├── KernelError            the kernel itself failed; its context is lost
    │   ├── AddressFault       CUDA_ERROR_ILLEGAL_ADDRESS (700)
    │   └── Trap               CUDA_ERROR_LAUNCH_FAILED (719)
    ├── BadAddress             raised by a memory; an executor turns it into an AddressFault
    └── Unsupported            the executor cannot run this code; nothing was executed
"""

from vgpu_sim.isa import Space

Block = tuple[int, int, int]


class ExecutionError(Exception):
    """Base of all errors of an executor."""


class KernelError(ExecutionError):
    """A thread did what ends its context. ``word`` is the instruction's index in the function."""

    def __init__(self, message: str, word: int, block: Block) -> None:
        super().__init__(message)
        self.word = word
        self.block = block


class AddressFault(KernelError):
    """A lane touched memory that is not there."""

    def __init__(self, address: int, word: int, block: Block, space: Space) -> None:
        super().__init__(
            f"illegal {space.name.lower()} address {address:#x} at word {word} in block {block}",
            word,
            block,
        )
        self.address = address
        self.space = space


class Trap(KernelError):
    """A lane executed TRAP."""

    def __init__(self, word: int, block: Block) -> None:
        super().__init__(f"trap at word {word} in block {block}", word, block)


class BadAddress(ExecutionError):
    """A memory does not hold all bytes of an access; ``address`` is where the access begins."""

    def __init__(self, address: int) -> None:
        super().__init__(f"no memory at {address:#x}")
        self.address = address


class Unsupported(ExecutionError):
    """Valid code that this executor cannot run yet; ``word`` is the first such instruction."""

    def __init__(self, what: str, function: str, word: int) -> None:
        super().__init__(f"{function}, word {word}: {what} is not supported yet")
        self.what = what
        self.function = function
        self.word = word
