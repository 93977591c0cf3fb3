"""The state machine of queue pairs."""

import pytest

from hca.binding.qp_state import RULES, RULES_OF, InvalidChange, change_attributes
from hca.contract.hca import HcaQpAttributes
from hca.contract.verbs import VerbsMask as Mask, VerbsQpType, VerbsState as State

GOOD = {
    "port": 1,
    "access": 7,
    "is_global": 1,
    "av_port": 1,
    "path_mtu": 5,
    "dest_qpn": 0xFFFFFF,
    "rq_psn": 1,
    "sq_psn": 2,
    "timeout": 14,
    "retry_count": 7,
    "rnr_retry": 7,
    "min_rnr_timer": 31,
    "max_rd_atomic": 16,
    "max_dest_rd_atomic": 16,
    "sgid_index": 1,
}


def attributes(state: State, **values: int) -> HcaQpAttributes:
    return HcaQpAttributes(**{**GOOD, **values}, state=state)


def apply_change(before: State, after: State, mask: int, **values: int) -> HcaQpAttributes:
    return change_attributes(
        HcaQpAttributes(state=before), Mask.STATE | mask, attributes(after, **values)
    )


def test_the_way_to_work_is_the_specifications():
    """IBA volume 1, table "QP state transition properties": the required attributes."""
    qp = HcaQpAttributes()
    for before, after in ((0, 1), (1, 2), (2, 3)):
        rule = RULES[State(before), State(after)]
        qp = change_attributes(qp, Mask.STATE | rule.required, attributes(State(after)))
        assert qp.state == after
    assert (qp.dest_qpn, qp.rq_psn, qp.sq_psn, qp.timeout) == (0xFFFFFF, 1, 2, 14)


@pytest.mark.parametrize("pair", [key for key in RULES if key[0] != key[1]], ids=str)
def test_each_required_attribute_is_missed(pair):
    required = RULES[pair].required
    for bit in Mask:
        if required & bit:
            with pytest.raises(InvalidChange, match=bit.name):
                apply_change(*pair, required & ~bit)


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_other_ways_are_closed(before, after):
    """For every pair of states: only the rules permit a transition, except to RESET and ERR."""
    if after in (State.RESET, State.ERR):
        assert apply_change(before, after, 0).state == after
    elif (before, after) in RULES:
        assert apply_change(before, after, RULES[before, after].required).state == after
    else:
        with pytest.raises(InvalidChange, match=before.name):
            apply_change(before, after, 0)


@pytest.mark.parametrize("bit", [Mask.QKEY, Mask.ALT_PATH, Mask.SQ_PSN, 1 << 25, 1 << 31])
def test_what_does_not_belong_to_a_change_is_refused(bit):
    with pytest.raises(InvalidChange, match="cannot be set"):
        apply_change(State.RESET, State.INIT, RULES[State.RESET, State.INIT].required | bit)


@pytest.mark.parametrize(
    ("after", "field", "value"),
    [
        *((State.INIT, "port", value) for value in (0, 2)),
        *((State.INIT, "pkey_index", value) for value in (16, 0xFFFF)),
        (State.INIT, "access", 1 << 5),
        *((State.RTR, "path_mtu", value) for value in (0, 6)),
        (State.RTR, "is_global", 0),
        (State.RTR, "sgid_index", 2),
        (State.RTR, "av_port", 0),
        *((State.RTR, field, 1 << 24) for field in ("dest_qpn", "rq_psn")),
        *((State.RTR, "min_rnr_timer", value) for value in (32, 255)),
        (State.RTR, "max_dest_rd_atomic", 17),
        *((State.RTS, field, 8) for field in ("retry_count", "rnr_retry")),
        (State.RTS, "timeout", 32),
        (State.RTS, "sq_psn", 1 << 24),
        (State.RTS, "max_rd_atomic", 17),
    ],
)
def test_a_value_outside_its_range_is_refused(after, field, value):
    before = State(after - 1)
    with pytest.raises(InvalidChange, match="access flags" if field == "access" else field):
        apply_change(before, after, RULES[before, after].required, **{field: value})


def test_only_what_the_mask_names_is_taken():
    qp = apply_change(State.RTR, State.RTS, RULES[State.RTR, State.RTS].required)
    again = change_attributes(qp, Mask.ACCESS_FLAGS, attributes(State.ERR, access=1, timeout=3))
    assert (again.state, again.access, again.timeout) == (State.RTS, 1, 14)


def test_reset_forgets_everything():
    qp = apply_change(State.RTR, State.RTS, RULES[State.RTR, State.RTS].required)
    assert bytes(change_attributes(qp, Mask.STATE, attributes(State.RESET))) == bytes(
        HcaQpAttributes()
    )


def test_no_state_is_no_state():
    with pytest.raises(InvalidChange, match="no state 7"):
        change_attributes(HcaQpAttributes(), Mask.STATE, HcaQpAttributes(state=7))


@pytest.mark.parametrize("kind", [VerbsQpType.UC, VerbsQpType.UD])
def test_unreliable_queue_pairs_need_less_and_come_back_from_sqe(kind):
    qp = HcaQpAttributes()
    for before, after in ((0, 1), (1, 2), (2, 3)):
        required = RULES_OF[kind][State(before), State(after)].required
        assert required & (Mask.TIMEOUT | Mask.RNR_RETRY | Mask.MIN_RNR_TIMER) == 0
        qp = change_attributes(qp, Mask.STATE | required, attributes(State(after)), kind)
    again = change_attributes(
        HcaQpAttributes(state=State.SQE), Mask.STATE, attributes(State.RTS), kind
    )
    assert again.state == State.RTS
    with pytest.raises(InvalidChange, match="SQE to RTS"):
        change_attributes(HcaQpAttributes(state=State.SQE), Mask.STATE, attributes(State.RTS))


def test_only_datagrams_have_a_q_key_and_they_have_no_access():
    init = RULES_OF[VerbsQpType.UD][State.RESET, State.INIT].required
    assert init & Mask.QKEY
    qp = change_attributes(
        HcaQpAttributes(), Mask.STATE | init, attributes(State.INIT, qkey=77), VerbsQpType.UD
    )
    assert qp.qkey == 77
    wrong = Mask.STATE | init | Mask.ACCESS_FLAGS
    with pytest.raises(InvalidChange, match="ACCESS_FLAGS cannot be set"):
        change_attributes(HcaQpAttributes(), wrong, attributes(State.INIT), VerbsQpType.UD)


def test_draining_may_be_reported_and_attributes_changed_meanwhile():
    mask = Mask.STATE | Mask.EN_SQD_ASYNC_NOTIFY
    qp = change_attributes(
        HcaQpAttributes(state=State.RTS), mask, attributes(State.SQD, sqd_notify=1)
    )
    assert (qp.state, qp.sqd_notify) == (State.SQD, 1)
    assert change_attributes(qp, Mask.TIMEOUT, attributes(State.SQD, timeout=9)).timeout == 9
