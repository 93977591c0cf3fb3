"""Interprets a classic BPF program for a system call, as the kernel does (linux/filter.h,
seccomp(2)).
"""

import struct
from collections.abc import Sequence

X86_64 = 0xC000_003E  # AUDIT_ARCH_X86_64
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000  # SECCOMP_RET_*
_INSTRUCTION = struct.Struct("=HBBI")


def decide(
    code: bytes, number: int, arguments: Sequence[int] = (), architecture: int = X86_64
) -> int:
    """Return the value that a filter returns for a call: the action, and an errno in the low bits.

    Raises:
        IndexError: the program runs past its end, which the kernel refuses to load.
        ValueError: an instruction that no filter of ours has.
    """
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number, architecture, 0, *padded)  # struct seccomp_data
    instructions = list(_INSTRUCTION.iter_unpack(code))
    accumulator, place = 0, 0
    while True:
        operation, if_true, if_false, operand = instructions[place]
        place += 1
        match operation:
            case 0x20:  # BPF_LD | BPF_W | BPF_ABS
                (accumulator,) = struct.unpack_from("=I", data, operand)
            case 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
                place += if_true if accumulator == operand else if_false
            case 0x35:  # BPF_JMP | BPF_JGE | BPF_K
                place += if_true if accumulator >= operand else if_false
            case 0x45:  # BPF_JMP | BPF_JSET | BPF_K
                place += if_true if accumulator & operand else if_false
            case 0x06:  # BPF_RET | BPF_K
                return int(operand)
            case _:
                raise ValueError(f"instruction {operation:#x} at {place - 1}")
