"""Allow-lists of system calls for x86-64; everything else fails with EPERM (seccomp(2))."""

import ctypes
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from vgpu_sim.system import calls

_AUDIT_ARCH_X86_64: Final = 0xC000_003E
_X32_BIT: Final = 0x4000_0000
_RET_KILL_PROCESS: Final = 0x8000_0000
_RET_ALLOW: Final = 0x7FFF_0000
_RET_ERRNO: Final = 0x0005_0000
_SECCOMP_MODE_FILTER: Final = 2
_EPERM, _ENOSYS = 1, 38

_CLONE_THREAD: Final = 0x0001_0000
# CLONE_NEW* of linux/sched.h: a new thread is allowed, a new namespace is not.
_CLONE_NAMESPACES: Final = 0x7E02_0080
SYS_CLONE: Final = 56
_SYS_CLONE3: Final = 435

# Classic BPF: struct sock_filter, and the offsets within struct seccomp_data.
_INSTRUCTION: Final = struct.Struct("<HBBI")
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_OR_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT_BYTES = 0, 4, 16, 8
Step = tuple[int, int, int, int]
ByArgument = tuple[int, int, tuple[int, ...]]  # number, which argument, its values

THREADS: Final[tuple[Step, ...]] = (
    (_JUMP_EQUAL, 0, 5, SYS_CLONE),
    (_LOAD, 0, 0, _FIRST_ARGUMENT),
    (_JUMP_ANY_BIT, 2, 0, _CLONE_NAMESPACES),
    (_JUMP_ANY_BIT, 0, 1, _CLONE_THREAD),
    (_RETURN, 0, 0, _RET_ALLOW),
    (_RETURN, 0, 0, _RET_ERRNO | _EPERM),
)


def allow_without_bits(number: int, argument: int, bits: int) -> tuple[Step, ...]:
    """Return filter steps for the system call ``number``. They allow the call unless the argument
    with the index ``argument`` has any of the bits ``bits``.
    """
    return (
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT + _ARGUMENT_BYTES * argument),
        (_JUMP_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _RET_ERRNO | _EPERM),
        (_RETURN, 0, 0, _RET_ALLOW),
    )


def allow_sockets(number: int, domains: tuple[int, int], kind: int) -> tuple[Step, ...]:
    """Return filter steps that allow the system call ``socket`` only for two domains and one type
    of socket. ``number`` is the number of the call. ``kind`` is the only allowed value of the
    call's second argument, a type with its flags.
    """
    first, second = domains
    return (
        (_JUMP_EQUAL, 0, 7, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_EQUAL, 1, 0, first),
        (_JUMP_EQUAL, 0, 3, second),
        (_LOAD, 0, 0, _FIRST_ARGUMENT + _ARGUMENT_BYTES),
        (_JUMP_EQUAL, 0, 1, kind),
        (_RETURN, 0, 0, _RET_ALLOW),
        (_RETURN, 0, 0, _RET_ERRNO | _EPERM),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def apply(code: bytes) -> None:
    """Install a filter for this thread and its descendants; requires no_new_privs. Raises
    OSError.
    """
    program = _Program(len(code) // _INSTRUCTION.size, code)
    calls.prctl(calls.PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))


def assemble(
    first: Iterable[Step], by_argument: Mapping[str, ByArgument], numbers: Iterable[int]
) -> bytes:
    """Return a system call filter as a program of classic BPF.

    The filter first runs the steps of ``first``. Each system call in ``by_argument`` is allowed
    only for certain values of one argument, of which the filter compares the lower 32 bits. The
    calls in ``numbers`` are allowed with any arguments. All other calls fail with EPERM.
    """
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, _RET_KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_GREATER_OR_EQUAL, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _RET_KILL_PROCESS),
        # libc falls back to clone, whose flags are a plain argument.
        (_JUMP_EQUAL, 0, 1, _SYS_CLONE3),
        (_RETURN, 0, 0, _RET_ERRNO | _ENOSYS),
        *first,
    ]
    for number, argument, values in by_argument.values():
        code += [
            (_JUMP_EQUAL, 0, 2 * len(values) + 2, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT + _ARGUMENT_BYTES * argument),
        ]
        for value in values:
            code += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, _RET_ALLOW)]
        code.append((_RETURN, 0, 0, _RET_ERRNO | _EPERM))
    for number in sorted(numbers):
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _RET_ALLOW)]
    code.append((_RETURN, 0, 0, _RET_ERRNO | _EPERM))
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)
