"""Opcodes of packets by verb, compared with the table in the InfiniBand specification."""

import pytest

from rdma.compiling.pkeys import allocate
from rdma.objects import Network, Partition
from rdma.opcodes import allowed_opcodes, allowed_opcodes_by_place
from rdma.verbs import ALL, NONE, Verb

# IB specification volume 1, table "Packet opcodes": reliable connection, from 0 on. Opcodes of
# unreliable connections are 0x20 higher, and end before READ.
RELIABLE = (
    *("SEND First", "SEND Middle", "SEND Last", "SEND Last with Immediate"),
    *("SEND Only", "SEND Only with Immediate"),
    *("WRITE First", "WRITE Middle", "WRITE Last", "WRITE Last with Immediate"),
    *("WRITE Only", "WRITE Only with Immediate", "READ Request"),
    *("READ response First", "READ response Middle", "READ response Last", "READ response Only"),
    *("Acknowledge", "ATOMIC Acknowledge", "CmpSwap", "FetchAdd", "reserved"),
    *("SEND Last with Invalidate", "SEND Only with Invalidate"),
)
CONGESTION = 0x81  # annex A17


def opcodes_named(*words: str, without: str = "-") -> set[int]:
    """Return the opcodes whose names begin with ``words``, except those with ``without``."""
    return {
        opcode
        for opcode, name in enumerate(RELIABLE)
        if name.startswith(words) and without not in name
    }


def unreliable(opcodes: set[int]) -> set[int]:
    return opcodes | {opcode + 0x20 for opcode in opcodes}


BEGINS = {"SEND": ("SEND First", "SEND Middle"), "WRITE": ("WRITE First", "WRITE Middle")}
WITH = ("WRITE Last with Immediate", "WRITE Only with Immediate")
REQUESTS = {
    Verb.SEND: unreliable(opcodes_named("SEND", without="Invalidate")),
    Verb.WRITE: unreliable(opcodes_named("WRITE", without="Immediate")),
    Verb.WRITE_IMM: unreliable(opcodes_named(*BEGINS["WRITE"], *WITH)),
    Verb.READ: opcodes_named("READ Request"),
    Verb.ATOMIC_CAS: opcodes_named("CmpSwap"),
    Verb.ATOMIC_FAA: opcodes_named("FetchAdd"),
    Verb.INVALIDATE: opcodes_named(
        *BEGINS["SEND"], "SEND Last with Invalidate", "SEND Only with Invalidate"
    ),
    Verb.UD: {0x64, 0x65},
    Verb.CM: {0x64, 0x65},
}
ANSWERS = {
    Verb.READ: opcodes_named("READ response"),
    Verb.ATOMIC_CAS: opcodes_named("ATOMIC Acknowledge"),
    Verb.ATOMIC_FAA: opcodes_named("ATOMIC Acknowledge"),
}


@pytest.mark.parametrize("verb", list(Verb))
def test_a_verb_is_its_packets_one_way_and_its_answers_the_other(verb: Verb) -> None:
    assert allowed_opcodes(verb, NONE) == REQUESTS[verb] | {CONGESTION}
    acknowledged = set() if verb in (Verb.UD, Verb.CM) else opcodes_named("Acknowledge")
    assert allowed_opcodes(NONE, verb) == ANSWERS.get(verb, set()) | acknowledged | {CONGESTION}
    assert allowed_opcodes(verb, verb) == allowed_opcodes(verb, NONE) | allowed_opcodes(NONE, verb)


def test_all_verbs_are_all_packets_that_there_are() -> None:
    everything = set(range(len(RELIABLE))) - {RELIABLE.index("reserved")}
    everything |= {opcode + 0x20 for opcode in range(0x0C)} | {0x64, 0x65, CONGESTION}
    assert allowed_opcodes(ALL, ALL) == everything
    assert allowed_opcodes(NONE, NONE) == set()


def test_requests_go_where_they_may_and_answers_anywhere() -> None:
    found = allowed_opcodes_by_place(
        {Verb.READ: "here", Verb.ATOMIC_CAS: "there"}, Verb.ATOMIC_FAA, "any"
    )
    assert found == {
        "any": {0x11, 0x12, CONGESTION},
        "here": {0x0C},
        "there": {0x13},
    }
    assert allowed_opcodes_by_place({}, Verb.UD, "any") == {"any": {CONGESTION}}
    assert allowed_opcodes_by_place({}, NONE, "any") == {}
    assert allowed_opcodes_by_place({Verb.READ: "any"}, NONE, "any") == {"any": {0x0C, CONGESTION}}
    both = allowed_opcodes_by_place({Verb.UD: "here", Verb.CM: "any"}, NONE, "any")
    assert both == {"any": {0x64, 0x65, CONGESTION}}


@pytest.mark.parametrize(
    ("before", "fixed", "kept"),
    # 15 bits; 0 is invalid, and 0x7fff is the default partition's: it can be fixed, never
    # allocated.
    [(0x0001, 0x0001, True), (0x7FFE, 0x7FFE, True), (0x7FFF, 0x7FFF, False), (0x0000, 0, False)],
)
def test_what_was_given_before_is_kept_within_the_keys_that_are_drawn(
    before: int, fixed: int, kept: bool
) -> None:
    drawn = Network("lab", (Partition("a"),))
    keys, _ = allocate([drawn], {("lab", "a"): before})
    assert (keys["lab", "a"] == before) is kept
    assert 0x0001 <= keys["lab", "a"] <= 0x7FFE
    _, refused = allocate([Network("lab", (Partition("a", fixed),))], {})
    assert bool(refused) is (fixed == 0)


def test_of_all_keys_the_last_that_is_free_is_found_and_the_default_never() -> None:
    fixed = tuple(Partition(f"f{key}", key) for key in range(1, 0x7FFE))
    keys, refused = allocate([Network("n", (*fixed, Partition("last"), Partition("none")))], {})
    assert keys["n", "last"] == 0x7FFE
    assert list(refused) == [("n", "none")]
