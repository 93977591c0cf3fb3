"""Opcodes: a family byte and an index within it. What they take and do is in ``families``.

A family's number is the high byte of the opcode and leaves room for 256 members. Numbers are part
of the binary encoding.
"""

from enum import IntEnum


class Family(IntEnum):
    """High byte of an opcode."""

    CONTROL = 0x00
    MOVE = 0x01
    INTEGER = 0x02
    FLOAT = 0x03
    COMPARE = 0x04
    CONVERT = 0x05
    MEMORY = 0x06
    SYNC = 0x07


class Op(IntEnum):
    """``family << 8 | index``."""

    NOP = 0x0000
    BRA = 0x0001
    RET = 0x0002
    TRAP = 0x0003

    MOV = 0x0100
    S2R = 0x0101
    SELP = 0x0102

    ADD = 0x0200
    SUB = 0x0201
    MUL = 0x0202
    MAD = 0x0203
    NEG = 0x0204
    ABS = 0x0205
    MIN = 0x0206
    MAX = 0x0207
    DIV = 0x0208
    REM = 0x0209
    SHL = 0x020A
    SHR = 0x020B
    AND = 0x020C
    OR = 0x020D
    XOR = 0x020E
    NOT = 0x020F

    FADD = 0x0300
    FSUB = 0x0301
    FMUL = 0x0302
    FMA = 0x0303
    FNEG = 0x0304
    FABS = 0x0305
    FMIN = 0x0306
    FMAX = 0x0307
    FDIV = 0x0308
    FRCP = 0x0309
    FSQRT = 0x030A

    SETP = 0x0400

    CVT = 0x0500

    LD = 0x0600
    ST = 0x0601

    BAR_SYNC = 0x0700
    BAR_ARRIVE = 0x0701

    @property
    def family(self) -> Family:
        return Family(self >> 8)
