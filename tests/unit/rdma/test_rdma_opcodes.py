"""Opcodes of packets by verb, from the names of the InfiniBand specification's table."""

import pytest

from rdma.compiling.pkeys import allocate
from rdma.objects import Network, Partition
from rdma.opcodes import allowed, allowed_where
from rdma.verbs import ALL, NONE, Verb

# IB specification volume 1, table "Packet opcodes", reliable connection, from 0 on; the same with
# 0x20 are those of unreliable connections, which have none from READ on.
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


def named(*words: str, without: str = "-") -> set[int]:
    """The opcodes whose names begin so, but for those that have a word."""
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
    Verb.SEND: unreliable(named("SEND", without="Invalidate")),
    Verb.WRITE: unreliable(named("WRITE", without="Immediate")),
    Verb.WRITE_IMM: unreliable(named(*BEGINS["WRITE"], *WITH)),
    Verb.READ: named("READ Request"),
    Verb.ATOMIC_CAS: named("CmpSwap"),
    Verb.ATOMIC_FAA: named("FetchAdd"),
    Verb.INVALIDATE: named(
        *BEGINS["SEND"], "SEND Last with Invalidate", "SEND Only with Invalidate"
    ),
    Verb.UD: {0x64, 0x65},
    Verb.CM: {0x64, 0x65},
}
ANSWERS = {
    Verb.READ: named("READ response"),
    Verb.ATOMIC_CAS: named("ATOMIC Acknowledge"),
    Verb.ATOMIC_FAA: named("ATOMIC Acknowledge"),
}


@pytest.mark.parametrize("verb", list(Verb))
def test_a_verb_is_its_packets_one_way_and_its_answers_the_other(verb: Verb) -> None:
    assert allowed(verb, NONE) == REQUESTS[verb] | {CONGESTION}
    acknowledged = set() if verb in (Verb.UD, Verb.CM) else named("Acknowledge")
    assert allowed(NONE, verb) == ANSWERS.get(verb, set()) | acknowledged | {CONGESTION}
    assert allowed(verb, verb) == allowed(verb, NONE) | allowed(NONE, verb)


def test_all_verbs_are_all_packets_that_there_are() -> None:
    everything = set(range(len(RELIABLE))) - {RELIABLE.index("reserved")}
    everything |= {opcode + 0x20 for opcode in range(0x0C)} | {0x64, 0x65, CONGESTION}
    assert allowed(ALL, ALL) == everything
    assert allowed(NONE, NONE) == set()


def test_requests_go_where_they_may_and_answers_anywhere() -> None:
    found = allowed_where({Verb.READ: "here", Verb.ATOMIC_CAS: "there"}, Verb.ATOMIC_FAA, "any")
    assert found == {
        "any": {0x11, 0x12, CONGESTION},
        "here": {0x0C},
        "there": {0x13},
    }
    assert allowed_where({}, Verb.UD, "any") == {"any": {CONGESTION}}
    assert allowed_where({}, NONE, "any") == {}
    assert allowed_where({Verb.READ: "any"}, NONE, "any") == {"any": {0x0C, CONGESTION}}
    both = allowed_where({Verb.UD: "here", Verb.CM: "any"}, NONE, "any")
    assert both == {"any": {0x64, 0x65, CONGESTION}}


@pytest.mark.parametrize(
    ("before", "fixed", "kept"),
    # 15 bits; 0 is none, and 0x7fff the default partition's, which is named and never drawn.
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
