"""Opcodes: a family byte and an index within it. ``families`` defines their operands and semantics.

A family's number is the high byte of the opcode and leaves room for 256 members. Numbers are
part of the binary encoding.
"""

from enum import IntEnum


class Family(IntEnum):
    """The family of an opcode, which is the opcode's high byte."""

    CONTROL = 0x00
    MOVE = 0x01
    INTEGER = 0x02
    FLOAT = 0x03
    COMPARE = 0x04
    CONVERT = 0x05
    MEMORY = 0x06
    SYNC = 0x07
    WARP = 0x08
    BITWISE = 0x0A
    ATOMIC = 0x09
    VIDEO = 0x0B
    COPY = 0x0C
    STACK = 0x0E
    MATRIX = 0x0F
    TENSOR = 0x10


class Op(IntEnum):
    """The opcodes; each value is ``family << 8 | index``."""

    NOP = 0x0000
    BRA = 0x0001
    RET = 0x0002
    TRAP = 0x0003
    NANOSLEEP = 0x000C

    MOV = 0x0100
    S2R = 0x0101
    SELP = 0x0102
    MAPA = 0x0103

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
    ADDC = 0x0210
    SUBC = 0x0211
    ADD_SAT = 0x0212
    SUB_SAT = 0x0213
    DP4A = 0x0214
    DP2A = 0x0215

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
    FRSQRT = 0x030B
    FEX2 = 0x030C
    FLG2 = 0x030D
    FSIN = 0x030E
    FCOS = 0x030F
    FTANH = 0x0310

    SETP = 0x0400

    CVT = 0x0500
    CVT_RS = 0x0501

    LD = 0x0600
    ST = 0x0601

    BAR_SYNC = 0x0700
    BAR_ARRIVE = 0x0701
    BAR_RED = 0x0702
    CLUSTER_ARRIVE = 0x0703
    CLUSTER_WAIT = 0x0704
    CANCEL = 0x0705

    SHFL = 0x0800
    VOTE = 0x0801
    MATCH = 0x0802
    REDUX = 0x0803
    ACTIVEMASK = 0x0804
    ELECT = 0x0805
    BAR_WARP = 0x0806

    BFE = 0x0A00
    BFI = 0x0A01
    BMSK = 0x0A02
    SZEXT = 0x0A03
    BFIND = 0x0A04
    FNS = 0x0A05
    POPC = 0x0A06
    CLZ = 0x0A07
    BREV = 0x0A08
    SHF_L = 0x0A09
    SHF_R = 0x0A0A
    PRMT = 0x0A0B
    LOP3 = 0x0A0C

    ATOM = 0x0900
    RED = 0x0901
    FENCE = 0x0902
    PADD = 0x0B00
    PSUB = 0x0B01
    PMIN = 0x0B02
    PMAX = 0x0B03
    PABS = 0x0B04
    PNEG = 0x0B05
    PABSDIFF = 0x0B06
    PAVG = 0x0B07
    PSET = 0x0B08

    LD_ZFILL = 0x0C00

    LOCAL_BYTES = 0x0E00
    LOCAL_WINDOW = 0x0E01

    MMA = 0x0F00
    LDMATRIX = 0x0F01
    MMA_SCALE = 0x0F02

    TMMA = 0x1000

    @property
    def family(self) -> Family:
        return Family(self >> 8)
