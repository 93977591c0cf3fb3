"""Rows of operations: each has the fields that its shape needs, and no two share a code."""

from collections import Counter

import pytest

from rdma import grants, packets
from rdma.operations import (
    CHANGES_MEMORY,
    NOWHERE,
    Extra,
    Service,
    Shape,
    VerbsDone,
    VerbsOpcode,
    operations_of_shape,
    text_of,
)
from rdma.packets import ANSWERS, PACKETS, Kind, Part
from rdma.verbs import ALL, NAMES, NONE, Verb

MESSAGES = (Shape.SEND, Shape.WRITE)


@pytest.mark.parametrize("operation", VerbsOpcode)
def test_an_operation_has_every_column_that_its_shape_needs(operation: VerbsOpcode) -> None:
    row = operation.row
    assert operation < 64  # C has sets of opcodes in 64 bits
    assert Service.RC in row.services
    assert row.over_wire in row.services
    assert (row.codes is None) == (row.over_wire == NOWHERE)
    assert row.done not in (VerbsDone.RECV, VerbsDone.RECV_RDMA_WITH_IMM)
    assert (row.verbs == NONE) == (row.shape is Shape.OWN)
    if row.shape is Shape.OWN:
        assert row.codes is None
    if row.shape not in MESSAGES:
        assert row.extra is Extra.NOTHING
        assert row.services == Service.RC or row.shape is Shape.OWN
    if row.shape is Shape.WRITE:
        assert not row.services & (Service.UD | Service.RAW_PACKET)
    if row.codes is not None:
        longer = (row.codes.first, row.codes.middle, row.codes.last)
        assert all(code is None or 0 <= code < 32 for code in (row.codes.only, *longer))
        assert all((code is not None) == (row.shape in MESSAGES) for code in longer)
    assert Verb.UD not in row.verbs
    assert Verb.CM not in row.verbs


def test_a_shape_that_goes_over_a_wire_has_packets_and_answers() -> None:
    over_wire = {one.row.shape for one in VerbsOpcode if one.row.codes is not None}
    assert set(ANSWERS) == over_wire
    assert all(operations_of_shape(shape) for shape in Shape)


def test_no_two_operations_share_what_names_them() -> None:
    ends = [
        packet.code
        for one in VerbsOpcode
        for packet in packets.request_packets(one)
        if Part.LAST in packet.parts
    ]
    bits = [one.row.send_ops_bit for one in VerbsOpcode]
    names = [packet.name for packet in PACKETS]
    for found in (ends, bits, names, [text_of(one) for one in VerbsOpcode]):
        assert max(Counter(found).values()) == 1


def test_what_begins_a_longer_message_belongs_to_the_plain_operation() -> None:
    shared = {
        packet.code: packet.operation
        for packet in PACKETS
        if packet.kind in (Kind.SEND, Kind.WRITE) and Part.LAST not in packet.parts
    }
    assert shared == {
        0x00: VerbsOpcode.SEND,
        0x01: VerbsOpcode.SEND,
        0x06: VerbsOpcode.RDMA_WRITE,
        0x07: VerbsOpcode.RDMA_WRITE,
    }


def test_each_verb_has_a_name_and_each_operation_counts_under_one_kind_of_access() -> None:
    assert list(NAMES.values()) == list(Verb)
    assert sum(Verb, NONE) == ALL
    assert [kind.value for kind in grants.KINDS] == [0b110, 0b1000, 0b110000]
    assert grants.KINDS[0] | grants.KINDS[2] == CHANGES_MEMORY
    assert sum(kind.value for kind in grants.KINDS) == (grants.KINDS[1] | CHANGES_MEMORY).value
