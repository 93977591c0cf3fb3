"""The loads of a block that form families: rows of four, with indices that differ by constants."""

import pytest

from support.kernels import waiting_kernels
from vgpu_sim.exec.jit.analysis import siblings
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.isa import Op

LD = "ld.global.u32 %r{place}, [%d{place}];"
MUL = "mul.wide.s32 %d3, %r5, 4; add.s64 %d{place}, %d1, %d3;"
SUM = "add.s32 %r5, %r3, {away};"
AWAYS = (1, 2, 3, 4)


def load(place: int, away: int, how: str = SUM + MUL + LD) -> str:
    return how.format(place=10 + place, away=away)


def row(*aways: int, how: str = SUM + MUL + LD) -> str:
    return "\n".join(load(place, away, how) for place, away in enumerate(aways))


def find_families(body: str) -> list[tuple[list[int], int]]:
    """Return the families of a kernel: the numbers of their loads, in program order."""
    form = ssa.build(waiting_kernels.kernel(body, 2).functions[0])
    nodes = [node for block in form.blocks.values() for node in block.nodes]
    loads = [
        node
        for node in nodes
        if isinstance(node, Operation) and node.instruction.op is Op.LD and node.sources
    ]
    families = siblings.families(form, nodes)
    for first, family in families.items():
        assert first is family.loads[0]
        assert family.kind.bits == 32
    ordered = siblings.order_addresses_first(nodes, families)
    assert sorted(map(id, ordered)) == sorted(map(id, nodes))
    made: set[object] = set()
    for node in ordered:  # nothing is used before its definition
        made |= set(ssa.results_of(node))
        if isinstance(node, Operation) and node in families:
            assert all(one.sources[0] in made for one in families[node].loads)
    return [([loads.index(one) for one in f.loads], f.most) for f in families.values()]


@pytest.mark.parametrize(
    "how",
    [
        SUM + MUL + LD,
        SUM + "mul.wide.s32 %d3, %r5, 4; add.s64 %d{place}, %d3, %d1;" + LD,
        SUM + "mad.wide.s32 %d{place}, %r5, 4, %d1;" + LD,
        SUM + "mul.wide.u32 %d3, %r5, 4; add.s64 %d{place}, %d1, %d3;" + LD,
        "add.s32 %r5, {away}, %r3;" + MUL + LD,
        "add.s32 %r6, %r3, 100; add.s32 %r7, %r2, {away}; add.s32 %r5, %r6, %r7;" + MUL + LD,
        SUM + MUL + "ld.global.f32 %f{place}, [%d{place}];",
        SUM + MUL + "ld.global.nc.u32 %r{place}, [%d{place}];",
    ],
)
def test_four_loads_that_are_one_element_apart_are_a_family(how: str) -> None:
    """Eight in a row are two families, whose last index is three larger than the first."""
    how = how.replace("%f", "%r").replace("ld.global.f32", "ld.global.b32")
    assert find_families(row(1, 2, 3, 4, how=how)) == [([0, 1, 2, 3], 3)]
    assert find_families(row(*range(-3, 5), how=how)) == [([0, 1, 2, 3], 3), ([4, 5, 6, 7], 3)]


@pytest.mark.parametrize(
    ("aways", "families"),
    [
        ((1, 2, 3), []),
        ((1, 2, 3, 5), []),
        ((1, 2, 3, 3, 4), [([0, 1, 2, 4], 3)]),  # one is read twice
        ((1, 3, 2, 4), [([0, 2, 1, 3], 3)]),  # sorted by address, starting with the first element
        ((2, 1, 3, 4), []),  # the first element of the row is missing
        ((9, 1, 2, 3, 4), [([1, 2, 3, 4], 3)]),
        ((1, 2, 3, 4, 6), [([0, 1, 2, 3], 3)]),
        ((2147483645, 2147483646, 2147483647, -2147483648), [([0, 1, 2, 3], 3)]),
    ],
)
def test_a_row_has_four_contiguous_elements(
    aways: tuple[int, ...], families: list[tuple[list[int], int]]
) -> None:
    assert find_families(row(*aways)) == families


@pytest.mark.parametrize(
    "odd",
    [
        SUM + MUL + "ld.volatile.global.u32 %r{place}, [%d{place}];",
        SUM + MUL + "ld.global.v2.u32 {{%r{place}, %r40}}, [%d{place}];",
        SUM + MUL + "setp.eq.u32 %p1, %r0, 7; @%p1 ld.global.u32 %r{place}, [%d{place}];",
        SUM + MUL + "ld.u32 %r{place}, [%d{place}];",  # perhaps in shared memory
        SUM + MUL + "ld.global.u64 %d20, [%d{place}];",
        SUM + MUL + "ld.global.s32 %r{place}, [%d{place}];",
        SUM + "mul.wide.s32 %d3, %r5, 8; add.s64 %d{place}, %d1, %d3;" + LD,
        SUM + "mul.wide.u32 %d3, %r5, 4; add.s64 %d{place}, %d1, %d3;" + LD,
        SUM + "mul.wide.s32 %d3, %r5, 4; add.s64 %d{place}, %d2, %d3;" + LD,
        SUM + "mul.wide.s32 %d3, %r5, 4; sub.s64 %d{place}, %d1, %d3;" + LD,
        SUM + "mul.wide.s32 %d3, %r5, %r2; add.s64 %d{place}, %d1, %d3;" + LD,
        SUM + "mul.wide.s16 %r6, 3, 4; cvt.s64.s32 %d3, %r6; add.s64 %d{place}, %d1, %d3;" + LD,
        "add.s32 %r5, %r2, {away};" + MUL + LD,
        "add.sat.s32 %r5, %r3, {away};" + MUL + LD,
        "sub.s32 %r5, %r3, {away};" + MUL + LD,
        SUM + MUL + "ld.global.u32 %r{place}, [%d{place}+4];",
        SUM + MUL + LD.replace("ld", "st.global.u32 [%d2], %r0; ld", 1),
        SUM + MUL + LD.replace("ld", "bar.sync 0; ld", 1),
        SUM + "atom.add.global.u32 %r41, [%d2], 1;" + MUL + LD,
    ],
)
@pytest.mark.parametrize("place", [1, 3])
def test_a_load_unlike_the_others_spoils_the_row(odd: str, place: int) -> None:
    lines = [load(number, away) for number, away in enumerate(AWAYS)]
    lines[place] = load(place, AWAYS[place], odd)
    assert find_families("\n".join(lines)) == []


def test_a_store_to_shared_memory_alone_spoils_no_row() -> None:
    lines = [load(number, away) for number, away in enumerate(AWAYS)]
    for store, families in (("st", [([0, 1, 2, 3], 3)]), ("st.volatile", [])):
        between = [*lines[:2], f"{store}.shared.u32 [tile], %r0;", *lines[2:]]
        assert find_families("\n".join(between)) == families


@pytest.mark.parametrize(("rows", "families"), [(16, 16), (17, 16)])
def test_a_block_has_sixteen_families_at_most(rows: int, families: int) -> None:
    how = (SUM + MUL + LD).replace("{place}", "10")
    aways = (8 * n + k for n in range(rows) for k in AWAYS)
    assert len(find_families(row(*aways, how=how))) == families


@pytest.mark.parametrize(
    ("term", "terms", "families"),
    [("%r2, %r5", 11, 1), ("%r2, %r5", 12, 0), ("%r5, %r2", 5, 1), ("%r5, %r2", 6, 0)],
)
def test_a_sum_is_followed_through_twelve_steps(term: str, terms: int, families: int) -> None:
    """The search for the constant at the end of a sum takes a step per sum and per copied
    register.
    """
    chain = "add.s32 %r5, %r0, {away};" + f"add.s32 %r5, {term};" * terms + MUL + LD
    assert len(find_families(row(*AWAYS, how=chain))) == families


@pytest.mark.parametrize(("steps", "families"), [(0, 1), (5, 1), (6, 0)])
def test_addresses_take_sixty_four_instructions_at_most(steps: int, families: int) -> None:
    """Each of four has 12 sums, a product and a sum, plus three common instructions and ``steps``
    more.
    """
    before = "xor.b32 %r0, %r0, 5;" * steps
    chain = "add.s32 %r5, %r0, {away};" + "add.s32 %r5, %r2, %r5;" * 11 + MUL + LD
    assert len(find_families(before + row(*AWAYS, how=chain))) == families


def test_loads_by_one_index_are_no_family() -> None:
    """They are contiguous for every index, so that no test is needed."""
    how = "add.s32 %r5, %r3, 7;" + MUL + "ld.global.u32 %r{place}, [%d{place}+{away}];"
    assert find_families(row(0, 4, 8, 12, how=how)) == []


def test_an_index_is_not_moved_before_its_load() -> None:
    """The third index is read from memory: it cannot be moved before the first load."""
    lines = [load(number, away) for number, away in enumerate(AWAYS)]
    lines.insert(2, "ld.global.u32 %r6, [%d2]; mov.u32 %r3, %r6;")
    assert find_families("\n".join(lines)) == []
