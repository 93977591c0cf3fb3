"""Numbers of the verbs API that hcad and libibverbs share: those of ``<infiniband/verbs.h>``.

``tests/abi/verbs/test_verbs_layouts.py`` compares them with the distribution's header.
Operations and their completions' names are rows of ``rdma.operations``.
"""

from enum import IntEnum
from typing import Final

from rdma.operations import VerbsDone as VerbsDone, VerbsOpcode as VerbsOpcode


class VerbsSend(IntEnum):
    """Flags of send requests, with the values of ibv_send_flags."""

    FENCE = 1
    SIGNALED = 2
    SOLICITED = 4
    INLINE = 8


class VerbsStatus(IntEnum):
    """Statuses of completions: the values of ibv_wc_status that are used."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    MW_BIND_ERR = 6
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13


class VerbsWcFlag(IntEnum):
    """Flags of completions: the values of ibv_wc_flags that are used."""

    GRH = 1
    WITH_IMM = 2
    WITH_INV = 8


class VerbsAccess(IntEnum):
    """Access flags of memory regions, with the values of ibv_access_flags."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 2
    REMOTE_READ = 4
    REMOTE_ATOMIC = 8
    MW_BIND = 16
    ZERO_BASED = 32
    RELAXED_ORDERING = 1 << 20


class VerbsQpType(IntEnum):
    """Types of queue pairs: the values of ibv_qp_type that are used."""

    RC = 2
    UC = 3
    UD = 4
    RAW_PACKET = 8


class VerbsMwType(IntEnum):
    """Types of memory windows, with the values of ibv_mw_type.

    Type 2 is 2B: such a window belongs to one queue pair.
    """

    TYPE_1 = 1
    TYPE_2 = 2


class VerbsState(IntEnum):
    """States of queue pairs, with the values of ibv_qp_state."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQD = 4
    SQE = 5
    ERR = 6


class VerbsMask(IntEnum):
    """Masks of queue pair attributes, with the values of ibv_qp_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    EN_SQD_ASYNC_NOTIFY = 1 << 2
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    QKEY = 1 << 6
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    ALT_PATH = 1 << 14
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    PATH_MIG_STATE = 1 << 18
    CAP = 1 << 19
    DEST_QPN = 1 << 20


class VerbsEvent(IntEnum):
    """Types of asynchronous events: the values of ibv_event_type that are used."""

    CQ_ERR = 0
    QP_FATAL = 1
    QP_REQ_ERR = 2
    QP_ACCESS_ERR = 3
    SQ_DRAINED = 5
    DEVICE_FATAL = 8
    SRQ_ERR = 14
    SRQ_LIMIT_REACHED = 15
    QP_LAST_WQE_REACHED = 16


ENUMS: Final = (
    VerbsOpcode,
    VerbsSend,
    VerbsStatus,
    VerbsDone,
    VerbsWcFlag,
    VerbsAccess,
    VerbsQpType,
    VerbsMwType,
    VerbsState,
    VerbsMask,
    VerbsEvent,
)
