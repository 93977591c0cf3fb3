"""The tables of queue pair states, limits and addresses, compared with their public sources.

Each declared limit is tested from both sides.
"""

import pytest

from hca.binding.links import LINKS
from hca.binding.qp_state import _LIMITS, RULES_OF, InvalidChange, change_attributes
from hca.binding.wire import PATH_MTUS, NoWire, WireInterface
from hca.contract.hca import HcaQpAttributes
from hca.contract.verbs import VerbsMask as Mask, VerbsQpType as Kind, VerbsState as State

RC, UC, UD, RAW = Kind.RC, Kind.UC, Kind.UD, Kind.RAW_PACKET
PLACE = "PKEY_INDEX PORT"
PATH = "AV PATH_MTU DEST_QPN RQ_PSN"
RATES = "TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC"
# From Linux, drivers/infiniband/core/verbs.c, qp_state_table: required and optional attributes.
# Alternate paths and migration are omitted, as the HCA lacks them, and so is CUR_STATE, which
# libibverbs checks. In three places the table follows the HCA instead of Linux: a raw packet queue
# pair may repeat PORT in INIT and request the event of SQD, and RC never leaves SQE.
LINUX = {
    ("RESET", "INIT"): {
        RC: (f"{PLACE} ACCESS_FLAGS", ""),
        UC: (f"{PLACE} ACCESS_FLAGS", ""),
        UD: (f"{PLACE} QKEY", ""),
        RAW: ("PORT", ""),
    },
    ("INIT", "INIT"): {
        RC: ("", f"{PLACE} ACCESS_FLAGS"),
        UC: ("", f"{PLACE} ACCESS_FLAGS"),
        UD: ("", f"{PLACE} QKEY"),
        RAW: ("", "PORT"),
    },
    ("INIT", "RTR"): {
        RC: (f"{PATH} MAX_DEST_RD_ATOMIC MIN_RNR_TIMER", "ACCESS_FLAGS PKEY_INDEX"),
        UC: (PATH, "ACCESS_FLAGS PKEY_INDEX"),
        UD: ("", "PKEY_INDEX QKEY"),
        RAW: ("", ""),
    },
    ("RTR", "RTS"): {
        RC: (f"{RATES} SQ_PSN", "ACCESS_FLAGS MIN_RNR_TIMER"),
        UC: ("SQ_PSN", "ACCESS_FLAGS"),
        UD: ("SQ_PSN", "QKEY"),
        RAW: ("", ""),
    },
    ("RTS", "RTS"): {
        RC: ("", "ACCESS_FLAGS MIN_RNR_TIMER"),
        UC: ("", "ACCESS_FLAGS"),
        UD: ("", "QKEY"),
        RAW: ("", ""),
    },
    ("RTS", "SQD"): dict.fromkeys((RC, UC, UD, RAW), ("", "EN_SQD_ASYNC_NOTIFY")),
    ("SQD", "RTS"): {
        RC: ("", "ACCESS_FLAGS MIN_RNR_TIMER"),
        UC: ("", "ACCESS_FLAGS"),
        UD: ("", "QKEY"),
        RAW: ("", ""),
    },
    ("SQD", "SQD"): {
        RC: (
            "",
            f"{PLACE} AV {RATES} MAX_DEST_RD_ATOMIC ACCESS_FLAGS MIN_RNR_TIMER",
        ),
        UC: ("", "AV ACCESS_FLAGS PKEY_INDEX"),
        UD: ("", "PKEY_INDEX QKEY"),
        RAW: ("", ""),
    },
    ("SQE", "RTS"): {UC: ("", "ACCESS_FLAGS"), UD: ("", "QKEY"), RAW: ("", "")},
}
# From the InfiniBand specification, "Modify Queue Pair", and from the HCA's own sizes.
RANGES = {
    ("ACCESS_FLAGS", "access"): None,
    ("PKEY_INDEX", "pkey_index"): (0, 15),
    ("PORT", "port"): (1, 1),
    ("AV", "is_global"): (1, 1),
    ("AV", "sgid_index"): (0, 1),
    ("AV", "av_port"): (1, 1),
    ("PATH_MTU", "path_mtu"): (1, 5),
    ("TIMEOUT", "timeout"): (0, 31),
    ("RETRY_CNT", "retry_count"): (0, 7),
    ("RNR_RETRY", "rnr_retry"): (0, 7),
    ("RQ_PSN", "rq_psn"): (0, 0xFFFFFF),
    ("SQ_PSN", "sq_psn"): (0, 0xFFFFFF),
    ("MAX_QP_RD_ATOMIC", "max_rd_atomic"): (0, 16),
    ("MAX_DEST_RD_ATOMIC", "max_dest_rd_atomic"): (0, 16),
    ("MIN_RNR_TIMER", "min_rnr_timer"): (0, 31),
    ("DEST_QPN", "dest_qpn"): (0, 0xFFFFFF),
    ("EN_SQD_ASYNC_NOTIFY", "sqd_notify"): (0, 1),
}
# For each attribute of RC, a transition that may set it.
SETS = dict.fromkeys(("PKEY_INDEX", "PORT"), ("RESET", "INIT"))
SETS |= dict.fromkeys(("AV", "PATH_MTU", "RQ_PSN", "DEST_QPN"), ("INIT", "RTR"))
SETS |= dict.fromkeys(("MAX_DEST_RD_ATOMIC", "MIN_RNR_TIMER"), ("INIT", "RTR"))
SETS |= dict.fromkeys((*RATES.split(), "SQ_PSN"), ("RTR", "RTS"))
SETS |= {"EN_SQD_ASYNC_NOTIFY": ("RTS", "SQD")}
FITS = {"port": 1, "is_global": 1, "av_port": 1, "path_mtu": 1}


def mask_of(names: str) -> int:
    return sum(Mask[name] for name in names.split())


@pytest.mark.parametrize("kind", [RC, UC, UD, RAW])
def test_each_change_needs_and_takes_the_attributes_of_the_table_above(kind):
    expected = {
        (State[before], State[after]): tuple(map(mask_of, of[kind]))
        for (before, after), of in LINUX.items()
        if kind in of
    }
    actual = {key: (rule.required, rule.optional) for key, rule in RULES_OF[kind].items()}
    assert actual == expected


def test_each_limit_of_an_attribute_is_tried():
    declared = {(bit.name, field) for bit, limits in _LIMITS.items() for field, *_ in limits}
    assert declared == RANGES.keys()


@pytest.mark.parametrize(("attribute", "field"), [key for key, of in RANGES.items() if of], ids=str)
def test_an_attribute_takes_both_ends_of_its_range_and_nothing_beside_it(attribute, field):
    least, greatest = RANGES[attribute, field]
    before, after = map(State.__getitem__, SETS[attribute])
    mask = Mask.STATE | Mask[attribute] | RULES_OF[RC][before, after].required

    def apply(value: int) -> HcaQpAttributes:
        wanted = HcaQpAttributes(**{**FITS, field: value}, state=after)
        return change_attributes(HcaQpAttributes(state=before), mask, wanted)

    for value in (least, greatest):
        assert getattr(apply(value), field) == value
    outside = [greatest + 1, *([least - 1] if least else [])]
    for value in outside:
        with pytest.raises(InvalidChange, match=f"{field} {value}: must be {least} to {greatest}"):
            apply(value)


@pytest.mark.parametrize("bit", range(32))
def test_each_access_flag_is_known_or_refused(bit):
    """The valid ibv_access_flags: the three remote ones, local write, and relaxed ordering."""
    wanted = HcaQpAttributes(access=1 << bit, port=1, state=State.INIT)
    mask = Mask.STATE | Mask.PORT | Mask.PKEY_INDEX | Mask.ACCESS_FLAGS
    if bit in (0, 1, 2, 3, 20):
        assert change_attributes(HcaQpAttributes(), mask, wanted).access == 1 << bit
    else:
        with pytest.raises(InvalidChange, match="access flags"):
            change_attributes(HcaQpAttributes(), mask, wanted)


def test_the_largest_packet_of_each_path_mtu_just_fits_its_interface():
    """By ibv_mtu codes; 96 bytes are for IPv6, UDP and the longest InfiniBand headers."""
    assert PATH_MTUS == (256, 512, 1024, 2048, 4096)
    for code, size in enumerate(PATH_MTUS, 1):
        assert WireInterface("eth0", size + 96).path_mtu() == code
        if code > 1:
            assert WireInterface("eth0", size + 95).path_mtu() == code - 1
    with pytest.raises(NoWire, match="an MTU of 351 bytes is too small"):
        WireInterface("eth0", 256 + 95).path_mtu()


def test_rates_are_lanes_times_the_speed_of_a_generation():
    """PortInfo: EDR, HDR and NDR lanes have 25, 50 and 100 Gb/s; width 1 is 1X, 2 is 4X."""
    lane = {32: 25, 64: 50, 128: 100}
    widths = {1: 1, 4: 2}
    assert LINKS.keys() == {25, 50, 100, 200, 400}
    for gbps, link in LINKS.items():
        assert link.gbps == gbps == link.lanes * lane[link.speed]
        assert link.width == widths[link.lanes]
