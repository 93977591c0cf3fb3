"""The state machine of queue pairs, compared with Linux's table, bit by bit.

The table is ``qp_state_table`` in drivers/infiniband/core/verbs.c, for the four kinds of queue
pairs here. Alternate paths, their migration, and rate limits are omitted, as the HCA lacks them.
Linux checks CUR_STATE in ``ib_modify_qp_is_ok``; here the library does.
"""

from collections.abc import Iterator

import pytest

from hca.binding.qp_state import InvalidChange, change_attributes
from hca.contract.hca import HcaQpAttributes
from hca.contract.verbs import VerbsAccess, VerbsMask as Mask, VerbsQpType as Kind, VerbsState

_CONNECTED = "ACCESS_FLAGS PKEY_INDEX PORT"
_RTS_OF = {Kind.UD: "QKEY", Kind.UC: "ACCESS_FLAGS", Kind.RC: "ACCESS_FLAGS MIN_RNR_TIMER"}
_UC_PATH = "AV PATH_MTU DEST_QPN RQ_PSN"
_REQUIRED: dict[str, dict[Kind, str]] = {
    "RESET INIT": {
        Kind.UD: "PKEY_INDEX PORT QKEY",
        Kind.RAW_PACKET: "PORT",
        Kind.UC: _CONNECTED,
        Kind.RC: _CONNECTED,
    },
    "INIT RTR": {Kind.UC: _UC_PATH, Kind.RC: f"{_UC_PATH} MAX_DEST_RD_ATOMIC MIN_RNR_TIMER"},
    "RTR RTS": {
        Kind.UD: "SQ_PSN",
        Kind.UC: "SQ_PSN",
        Kind.RC: "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
    },
}
_NOTIFY = "EN_SQD_ASYNC_NOTIFY"
_OPTIONAL: dict[str, dict[Kind, str]] = {
    "INIT INIT": {
        Kind.UD: "PKEY_INDEX PORT QKEY",
        Kind.UC: _CONNECTED,
        Kind.RC: _CONNECTED,
        Kind.RAW_PACKET: "PORT",  # not in Linux: what RESET to INIT sets may be set again
    },
    "INIT RTR": {
        Kind.UD: "PKEY_INDEX QKEY",
        Kind.UC: "ACCESS_FLAGS PKEY_INDEX",
        Kind.RC: "ACCESS_FLAGS PKEY_INDEX",
    },
    "RTR RTS": _RTS_OF,
    "RTS RTS": _RTS_OF,
    "SQD RTS": _RTS_OF,
    "RTS SQD": dict.fromkeys(Kind, _NOTIFY),  # Linux omits raw packets
    "SQD SQD": {
        Kind.UD: "PKEY_INDEX QKEY",
        Kind.UC: "AV ACCESS_FLAGS PKEY_INDEX",
        Kind.RC: "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC"
        " ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER",
    },
    "SQE RTS": {Kind.UD: "QKEY", Kind.UC: "ACCESS_FLAGS", Kind.RAW_PACKET: ""},
}
_GOOD = HcaQpAttributes(port=1, is_global=1, av_port=1, path_mtu=5)


def _bits(names: str) -> int:
    return sum(Mask[name] for name in names.split())


def _pairs() -> Iterator[tuple[Kind, VerbsState, VerbsState]]:
    for kind in Kind:
        for before in VerbsState:
            for after in VerbsState:
                yield kind, before, after


def _is_taken(kind: Kind, before: VerbsState, after: VerbsState, mask: int) -> bool:
    wanted = HcaQpAttributes.from_buffer_copy(_GOOD)
    wanted.state = after
    try:
        result = change_attributes(HcaQpAttributes(state=before), Mask.STATE | mask, wanted, kind)
    except InvalidChange:
        return False
    assert result.state == after
    return True


def _ways_of(kind: Kind) -> set[str]:
    """Return the transitions of a kind; Linux also permits RC to leave SQE, which RC never
    enters.
    """
    ways = {*_REQUIRED, *_OPTIONAL}
    return ways - {"SQE RTS"} if kind == Kind.RC else ways


@pytest.mark.parametrize("kind", Kind)
def test_every_attribute_of_every_change_is_as_in_linux(kind: Kind) -> None:
    for kind_of_it, before, after in _pairs():
        if kind_of_it != kind:
            continue
        way = f"{before.name} {after.name}"
        ends = after in (VerbsState.RESET, VerbsState.ERR)
        required = 0 if ends else _bits(_REQUIRED.get(way, {}).get(kind, ""))
        optional = 0 if ends else _bits(_OPTIONAL.get(way, {}).get(kind, ""))
        is_way = ends or way in _ways_of(kind)
        assert _is_taken(kind, before, after, required) == is_way, way
        for number in range(1, 32):
            bit = 1 << number
            found = _is_taken(kind, before, after, required ^ bit)
            assert found == (is_way and bool(optional & bit)), f"{way}: bit {number}"
        assert _is_taken(kind, before, after, required | optional) == is_way, way


_RANGES = {
    Mask.PKEY_INDEX: ("pkey_index", 15),
    Mask.PATH_MTU: ("path_mtu", 5),
    Mask.TIMEOUT: ("timeout", 31),
    Mask.RETRY_CNT: ("retry_count", 7),
    Mask.RNR_RETRY: ("rnr_retry", 7),
    Mask.RQ_PSN: ("rq_psn", 0xFFFFFF),
    Mask.SQ_PSN: ("sq_psn", 0xFFFFFF),
    Mask.MAX_QP_RD_ATOMIC: ("max_rd_atomic", 16),
    Mask.MAX_DEST_RD_ATOMIC: ("max_dest_rd_atomic", 16),
    Mask.MIN_RNR_TIMER: ("min_rnr_timer", 31),
    Mask.DEST_QPN: ("dest_qpn", 0xFFFFFF),
    Mask.EN_SQD_ASYNC_NOTIFY: ("sqd_notify", 1),
    Mask.PORT: ("port", 1),
    Mask.AV: ("sgid_index", 1),
}
_LEAST = {"path_mtu": 1, "port": 1}
_ACCESS = (
    VerbsAccess.LOCAL_WRITE
    | VerbsAccess.REMOTE_WRITE
    | VerbsAccess.REMOTE_READ
    | VerbsAccess.REMOTE_ATOMIC
    | VerbsAccess.RELAXED_ORDERING
)


def _changes_of(bit: Mask) -> Iterator[tuple[VerbsState, VerbsState, int]]:
    """Return the transitions of RC that may set an attribute, with their required attributes."""
    for way in _ways_of(Kind.RC):
        required = _bits(_REQUIRED.get(way, {}).get(Kind.RC, ""))
        if bit & (required | _bits(_OPTIONAL.get(way, {}).get(Kind.RC, ""))):
            before, after = (VerbsState[name] for name in way.split())
            yield before, after, required | bit


@pytest.mark.parametrize("bit", _RANGES, ids=lambda bit: bit.name)
def test_an_attribute_is_taken_up_to_its_ends_and_not_beyond(bit: Mask) -> None:
    field, greatest = _RANGES[bit]
    least = _LEAST.get(field, 0)
    changes = list(_changes_of(bit))
    assert changes
    for before, after, mask in changes:
        for value in {least - 1, least, greatest, greatest + 1} - {-1}:
            wanted = HcaQpAttributes.from_buffer_copy(_GOOD)
            wanted.state = after
            setattr(wanted, field, value)
            if least <= value <= greatest:
                made = change_attributes(HcaQpAttributes(state=before), Mask.STATE | mask, wanted)
                assert getattr(made, field) == value
            else:
                with pytest.raises(InvalidChange, match=field):
                    change_attributes(HcaQpAttributes(state=before), Mask.STATE | mask, wanted)


def test_every_flag_of_access_is_known_or_refused() -> None:
    for number in range(32):
        wanted = HcaQpAttributes.from_buffer_copy(_GOOD)
        wanted.state, wanted.access = VerbsState.RTS, 1 << number
        before = HcaQpAttributes(state=VerbsState.RTS)
        if _ACCESS & 1 << number:
            assert change_attributes(before, Mask.ACCESS_FLAGS, wanted).access == 1 << number
        else:
            with pytest.raises(InvalidChange, match="access"):
                change_attributes(before, Mask.ACCESS_FLAGS, wanted)
