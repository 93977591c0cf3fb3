"""The state machine of queue pairs: the attributes that each transition requires and permits.

InfiniBand Architecture Specification volume 1, "Modify Queue Pair", defines the transitions of
RC, UC and UD; those of raw packet queue pairs are as in Linux. The functions are pure: they
return new values and change nothing.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from hca.contract.hca import (
    HCA_GIDS,
    HCA_MAX_MTU,
    HCA_MAX_RD_ATOMIC,
    HCA_PKEYS,
    HCA_QPN_MASK,
    HcaQpAttributes,
)
from hca.contract.verbs import VerbsAccess, VerbsMask as Mask, VerbsQpType, VerbsState as State
from vgpu_sim.records import dataclass

_ACCESS: Final = (
    VerbsAccess.LOCAL_WRITE
    | VerbsAccess.REMOTE_WRITE
    | VerbsAccess.REMOTE_READ
    | VerbsAccess.REMOTE_ATOMIC
    | VerbsAccess.RELAXED_ORDERING
)


class InvalidChange(ValueError):
    """A change of a queue pair's attributes that the verb refuses with EINVAL; the message states
    why.
    """


@dataclass(frozen=True, slots=True)
class Rule:
    """Masks of the attributes that a transition requires, and of those that it permits."""

    required: int = 0
    optional: int = 0


_ALWAYS: Final = Mask.STATE  # the library checks CUR_STATE, as it knows both states
_PLACE: Final = Mask.PKEY_INDEX | Mask.PORT
_PATH: Final = Mask.AV | Mask.PATH_MTU | Mask.DEST_QPN | Mask.RQ_PSN
_ANSWERS: Final = Mask.ACCESS_FLAGS | Mask.MIN_RNR_TIMER
_RETRIES: Final = (
    Mask.TIMEOUT | Mask.RETRY_CNT | Mask.RNR_RETRY | Mask.MAX_QP_RD_ATOMIC | Mask.MAX_DEST_RD_ATOMIC
)
_DRAIN: Final = Rule(0, Mask.EN_SQD_ASYNC_NOTIFY)
RULES: Final[Mapping[tuple[State, State], Rule]] = {
    (State.RESET, State.INIT): Rule(_PLACE | Mask.ACCESS_FLAGS),
    (State.INIT, State.INIT): Rule(0, _PLACE | Mask.ACCESS_FLAGS),
    (State.INIT, State.RTR): Rule(
        _PATH | Mask.MAX_DEST_RD_ATOMIC | Mask.MIN_RNR_TIMER,
        Mask.ACCESS_FLAGS | Mask.PKEY_INDEX,
    ),
    (State.RTR, State.RTS): Rule(
        Mask.TIMEOUT | Mask.RETRY_CNT | Mask.RNR_RETRY | Mask.SQ_PSN | Mask.MAX_QP_RD_ATOMIC,
        _ANSWERS,
    ),
    (State.RTS, State.RTS): Rule(0, _ANSWERS),
    (State.RTS, State.SQD): _DRAIN,
    (State.SQD, State.RTS): Rule(0, _ANSWERS),
    (State.SQD, State.SQD): Rule(0, _PLACE | Mask.AV | _ANSWERS | _RETRIES),
}
"""Transitions of RC queue pairs. In addition, RESET and ERR can be reached from every state."""
_UC_RULES: Final[Mapping[tuple[State, State], Rule]] = {
    (State.RESET, State.INIT): Rule(_PLACE | Mask.ACCESS_FLAGS),
    (State.INIT, State.INIT): Rule(0, _PLACE | Mask.ACCESS_FLAGS),
    (State.INIT, State.RTR): Rule(_PATH, Mask.ACCESS_FLAGS | Mask.PKEY_INDEX),
    (State.RTR, State.RTS): Rule(Mask.SQ_PSN, Mask.ACCESS_FLAGS),
    (State.RTS, State.RTS): Rule(0, Mask.ACCESS_FLAGS),
    (State.RTS, State.SQD): _DRAIN,
    (State.SQD, State.RTS): Rule(0, Mask.ACCESS_FLAGS),
    (State.SQD, State.SQD): Rule(0, Mask.AV | Mask.ACCESS_FLAGS | Mask.PKEY_INDEX),
    (State.SQE, State.RTS): Rule(0, Mask.ACCESS_FLAGS),
}
_UD_RULES: Final[Mapping[tuple[State, State], Rule]] = {
    (State.RESET, State.INIT): Rule(_PLACE | Mask.QKEY),
    (State.INIT, State.INIT): Rule(0, _PLACE | Mask.QKEY),
    (State.INIT, State.RTR): Rule(0, Mask.QKEY | Mask.PKEY_INDEX),
    (State.RTR, State.RTS): Rule(Mask.SQ_PSN, Mask.QKEY),
    (State.RTS, State.RTS): Rule(0, Mask.QKEY),
    (State.RTS, State.SQD): _DRAIN,
    (State.SQD, State.RTS): Rule(0, Mask.QKEY),
    (State.SQD, State.SQD): Rule(0, Mask.QKEY | Mask.PKEY_INDEX),
    (State.SQE, State.RTS): Rule(0, Mask.QKEY),
}
_RAW_RULES: Final[Mapping[tuple[State, State], Rule]] = {
    (State.RESET, State.INIT): Rule(Mask.PORT),
    (State.INIT, State.INIT): Rule(0, Mask.PORT),
    (State.INIT, State.RTR): Rule(),
    (State.RTR, State.RTS): Rule(),
    (State.RTS, State.RTS): Rule(),
    (State.RTS, State.SQD): _DRAIN,
    (State.SQD, State.RTS): Rule(),
    (State.SQD, State.SQD): Rule(),
    (State.SQE, State.RTS): Rule(),
}
"""Transitions of raw packet queue pairs (drivers/infiniband/core/verbs.c, ``qp_state_table``)."""
RULES_OF: Final[Mapping[VerbsQpType, Mapping[tuple[State, State], Rule]]] = {
    VerbsQpType.RC: RULES,
    VerbsQpType.UC: _UC_RULES,
    VerbsQpType.UD: _UD_RULES,
    VerbsQpType.RAW_PACKET: _RAW_RULES,
}

_FIELDS: Final[Mapping[Mask, tuple[str, ...]]] = {
    Mask.ACCESS_FLAGS: ("access",),
    Mask.PKEY_INDEX: ("pkey_index",),
    Mask.PORT: ("port",),
    Mask.AV: (
        "dlid",
        "dgid",
        "sgid_index",
        "hop_limit",
        "traffic_class",
        "service_level",
        "is_global",
        "av_port",
        "flow_label",
    ),
    Mask.PATH_MTU: ("path_mtu",),
    Mask.TIMEOUT: ("timeout",),
    Mask.RETRY_CNT: ("retry_count",),
    Mask.RNR_RETRY: ("rnr_retry",),
    Mask.RQ_PSN: ("rq_psn",),
    Mask.SQ_PSN: ("sq_psn",),
    Mask.MAX_QP_RD_ATOMIC: ("max_rd_atomic",),
    Mask.MAX_DEST_RD_ATOMIC: ("max_dest_rd_atomic",),
    Mask.MIN_RNR_TIMER: ("min_rnr_timer",),
    Mask.DEST_QPN: ("dest_qpn",),
    Mask.QKEY: ("qkey",),
    Mask.EN_SQD_ASYNC_NOTIFY: ("sqd_notify",),
}
_LIMITS: Final[Mapping[Mask, tuple[tuple[str, int, int], ...]]] = {
    Mask.ACCESS_FLAGS: (("access", 0, _ACCESS),),
    Mask.PKEY_INDEX: (("pkey_index", 0, HCA_PKEYS - 1),),
    Mask.PORT: (("port", 1, 1),),
    Mask.AV: (("is_global", 1, 1), ("sgid_index", 0, HCA_GIDS - 1), ("av_port", 1, 1)),
    Mask.PATH_MTU: (("path_mtu", 1, HCA_MAX_MTU),),
    Mask.TIMEOUT: (("timeout", 0, 31),),
    Mask.RETRY_CNT: (("retry_count", 0, 7),),
    Mask.RNR_RETRY: (("rnr_retry", 0, 7),),
    Mask.RQ_PSN: (("rq_psn", 0, HCA_QPN_MASK),),
    Mask.SQ_PSN: (("sq_psn", 0, HCA_QPN_MASK),),
    Mask.MAX_QP_RD_ATOMIC: (("max_rd_atomic", 0, HCA_MAX_RD_ATOMIC),),
    Mask.MAX_DEST_RD_ATOMIC: (("max_dest_rd_atomic", 0, HCA_MAX_RD_ATOMIC),),
    Mask.MIN_RNR_TIMER: (("min_rnr_timer", 0, 31),),
    Mask.DEST_QPN: (("dest_qpn", 0, HCA_QPN_MASK),),
    Mask.EN_SQD_ASYNC_NOTIFY: (("sqd_notify", 0, 1),),
}
"""For each attribute its field and the field's least and greatest value.

A RoCE path is always global: it has no LIDs.
"""


def change_attributes(
    current: HcaQpAttributes,
    mask: int,
    requested_attributes: HcaQpAttributes,
    kind: VerbsQpType = VerbsQpType.RC,
) -> HcaQpAttributes:
    """Return a queue pair's new attributes: those in ``mask`` are set to the requested values.

    Raises:
        InvalidChange: no such transition exists, or an attribute is missing, not permitted or out
            of range.
    """
    old_state = State(current.state)
    new_state = _state(requested_attributes.state) if mask & Mask.STATE else old_state
    fields, limits = _find_rules(kind, old_state, new_state, mask)
    result = HcaQpAttributes() if new_state == State.RESET else _copy(current)
    _check_limits(limits, requested_attributes)
    for field in fields:
        setattr(result, field, getattr(requested_attributes, field))
    result.state = new_state
    return result


@lru_cache(maxsize=256)
def _find_rules(
    kind: VerbsQpType, old_state: State, new_state: State, mask: int
) -> tuple[tuple[str, ...], tuple[tuple[str, int, int], ...]]:
    """Return the fields that a transition sets, and the limits of their values. Raises
    InvalidChange.

    Results are cached, as programs repeat the same few transitions.
    """
    _check_mask(kind, old_state, new_state, mask)
    fields = tuple(field for bit, of in _FIELDS.items() if mask & bit for field in of)
    limits = tuple(limit for bit, of in _LIMITS.items() if mask & bit for limit in of)
    return fields, limits


def _copy(attributes: HcaQpAttributes) -> HcaQpAttributes:
    return HcaQpAttributes.from_buffer_copy(bytes(attributes))


def _state(value: int) -> State:
    try:
        return State(value)
    except ValueError:
        raise InvalidChange(f"queue pairs have no state {value}") from None


def _check_mask(kind: VerbsQpType, old_state: State, new_state: State, mask: int) -> None:
    name = f"{old_state.name} to {new_state.name}"
    if new_state in (State.RESET, State.ERR):
        rule = Rule()
    else:
        transition_rule = RULES_OF[kind].get((old_state, new_state))
        if transition_rule is None:
            raise InvalidChange(f"{name}: {kind.name} queue pairs have no such transition")
        rule = transition_rule
    missing = rule.required & ~mask
    if missing:
        raise InvalidChange(f"{name}: {_names(missing)} must be set")
    surplus = mask & ~(_ALWAYS | rule.required | rule.optional)
    if surplus:
        raise InvalidChange(f"{name}: {_names(surplus)} cannot be set")


def _check_limits(limits: tuple[tuple[str, int, int], ...], attributes: HcaQpAttributes) -> None:
    for field, minimum, maximum in limits:
        value = getattr(attributes, field)
        if field == "access":
            if value & ~maximum:
                raise InvalidChange(f"access flags {value:#x} contain unknown flags")
        elif not minimum <= value <= maximum:
            raise InvalidChange(f"{field} {value}: must be {minimum} to {maximum}")


def _names(mask: int) -> str:
    bit_names = [bit.name for bit in Mask if mask & bit]
    unknown_bits = mask & ~sum(Mask)
    return ", ".join([*bit_names, *([f"{unknown_bits:#x}"] if unknown_bits else [])])
