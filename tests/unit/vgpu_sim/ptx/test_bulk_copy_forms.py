"""Bulk copies and updates of tensor maps: supported forms, targets, and what is refused."""

import pytest

from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim import compiler
from vgpu_sim.compiler.errors import InvalidPtxError, PtxSyntaxError, UnsupportedPtxError
from vgpu_sim.isa import DataType, Instruction, Literal, Op, Space

_REGISTERS = """
    .reg .b64 %a, %m, %d, %policy; .reg .b32 %s, %r<6>, %bar; .reg .b16 %h; .reg .pred %p;
    .reg .b128 %q;
    .shared .align 128 .b8 sm[1024]; .shared .b64 bar;
"""
_COMPLETES = "mbarrier::complete_tx::bytes"


def _words(line: str) -> tuple[Instruction, ...]:
    return compile_verified(kernel(line, registers=_REGISTERS)).functions[0].code[:-1]


@pytest.mark.parametrize(
    ("field", "operands", "type_", "offset"),
    [
        ("global_address.shared::cta.b1024.b64", "%d", DataType.B64, 0),
        ("global_stride.global.b1024.b64", "3, %d", DataType.B64, 32),
        ("global_dim.b1024.b32", "4, %r1", DataType.B32, 56),
        ("box_dim.shared::cta.b1024.b32", "1, %r1", DataType.B16, 62),
        ("element_stride.shared::cta.b1024.b32", "2, %r1", DataType.B8, 72),
        ("rank.shared::cta.b1024.b32", "1", DataType.B8, 75),
        ("elemtype.shared::cta.b1024.b32", "6", DataType.B8, 76),
        ("interleave_layout.shared::cta.b1024.b32", "0", DataType.B8, 77),
        ("swizzle_mode.shared::cta.b1024.b32", "3", DataType.B8, 78),
        ("fill_mode.shared::cta.b1024.b32", "1", DataType.B8, 79),
        ("swizzle_atomicity.shared::cta.b1024.b32", "0", DataType.B8, 80),
    ],
)
def test_a_field_of_a_map_is_stored(
    field: str, operands: str, type_: DataType, offset: int
) -> None:
    where = "%s" if "shared" in field else "%m"
    *before, store = _words(f"tensormap.replace.tile.{field} [{where}], {operands};")
    assert (store.op, store.type, store.displacement) == (Op.ST, type_, offset)
    space = Space.SHARED if "shared" in field else Space.GENERIC
    assert store.space is (Space.GLOBAL if "global.b" in field else space)
    if "global_dim" in field:
        assert [(word.op, word.srcs[1]) for word in before] == [(Op.ADD, Literal(0xFFFF_FFFF))]
    else:
        assert not before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tensormap.replace.tile.rank.b1024.b32 [%m], 1, 1;", "belongs to no dimension"),
        ("tensormap.replace.tile.rank.b1024.b32 [%m], 5;", "rank 5 does not exist"),
        ("tensormap.replace.tile.rank.b1024.b32 [%m], -1;", "does not exist; it is 0 to 4"),
        *(
            (f"tensormap.replace.tile.{field}.b1024.b32 [%m], {value};", message)
            for field, count in (
                ("elemtype", 16), ("interleave_layout", 3), ("swizzle_mode", 5),
                ("swizzle_atomicity", 4), ("fill_mode", 2),
            )
            for value, message in (
                (count, f"{field} {count} does not exist"), ("%r1", f"{field} needs a constant")
            )
        ),
        ("tensormap.replace.tile.box_dim.b1024.b32 [%m], 5, 1;", "number of a dimension, 0 to 4"),
        ("tensormap.replace.tile.global_stride.b1024.b64 [%m], 4, %d;", "0 to 3"),
        ("tensormap.replace.tile.global_dim.b1024.b64 [%m], 1, %d;", "has the type .b32"),
        (f"cp.async.bulk.tensor.2d.shared::cta.global.{_COMPLETES} [%s], [%m, {{%r1}}], [bar];",
         "a vector of 2 coordinates"),
        *(
            (f"{start} {size}{end};", message)
            for start, end in (
                (f"cp.async.bulk.shared::cta.global.{_COMPLETES} [%s], [%m],", ", [bar]"),
                ("cp.async.bulk.prefetch.L2.global [%m],", ""),
            )
            for size, message in (
                (1 << 32 | 16, "4294967312 does not fit"), (-16, "does not fit"), (24, "not 24"),
            )
        ),
        (f"cp.async.bulk.tensor.1d.shared::cta.global.{_COMPLETES} [%s], [%m], [bar];",
         "a tensor map and its coordinates"),
        (f"cp.async.bulk.tensor.3d.shared::cta.global.im2col.{_COMPLETES}"
         " [%s], [%m, {%r1, %r2, %r3}], [bar], {%h, %h};", "a vector of 1 im2col offsets"),
        (f"cp.async.bulk.tensor.2d.shared::cta.global.im2col.{_COMPLETES}"
         " [%s], [%m, {%r1, %r2}], [bar], {%h};", ".im2col needs a tensor of 3 to 5 dimensions"),
        (f"cp.async.bulk.tensor.3d.shared::cta.global.tile::gather4.{_COMPLETES}"
         " [%s], [%m, {%r1, %r2, %r3}], [bar];", ".tile::gather4 needs a tensor of 2 dimensions"),
        (f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{_COMPLETES}"
         " [%s], [%m, {%r1, %r2}], [bar];", "a vector of 5 coordinates"),
        ("multimem.red.relaxed.gpu.global.add.u32 [%a], %r1;", "needs a multicast object"),
        ("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3}, %q;",
         "a vector of 4 registers"),
    ],
)  # fmt: skip
def test_what_is_refused(line: str, message: str) -> None:
    with pytest.raises((InvalidPtxError, UnsupportedPtxError), match=message):
        _words(line)


@pytest.mark.parametrize(
    "line",
    [
        "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%a], 64, %policy;",
        "cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%m, {%r1, %r2, %r3}];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%m, {%r1, %r2, %r3, %r4, %r5}];",
        "cp.async.bulk.prefetch.tensor.3d.L2.global.im2col [%m, {%r1, %r2, %r3}], {%h};",
        "prefetch.tensormap [%m];",
        "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group.read 1;",
    ],
)
def test_hints_and_groups_are_nothing(line: str) -> None:
    assert _words(line) == ()


_ROWS = "[%m, {%r1, %r2, %r3, %r4, %r5}]"


@pytest.mark.parametrize(
    ("written", "documented", "operands"),
    [
        (f"2d.tile::gather4.shared::cta.global.{_COMPLETES}",
         f"2d.shared::cta.global.tile::gather4.{_COMPLETES}", f"[%s], {_ROWS}, [bar]"),
        ("2d.tile::scatter4.global.shared::cta.bulk_group",
         "2d.global.shared::cta.tile::scatter4.bulk_group", f"{_ROWS}, [%s]"),
        (f"2d.cta_group::2.tile::gather4.shared::cluster.global.{_COMPLETES}",
         f"2d.shared::cluster.global.tile::gather4.{_COMPLETES}.cta_group::2",
         f"[%s], {_ROWS}, [bar]"),
        (f"3d.im2col.shared::cta.global.{_COMPLETES}",
         f"3d.shared::cta.global.im2col.{_COMPLETES}", "[%s], [%m, {%r1, %r2, %r3}], [bar], {%h}"),
    ],
)  # fmt: skip
def test_the_mode_of_a_copy_may_precede_its_spaces(
    written: str, documented: str, operands: str
) -> None:
    """Triton writes `.tile::gather4` there, and assemblers take it."""
    first, second = (
        _words(f"cp.async.bulk.tensor.{form} {operands};") for form in (written, documented)
    )
    assert first == second


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_older_targets_have_no_bulk_copies(target: str) -> None:
    line = f"cp.async.bulk.shared::cluster.global.{_COMPLETES} [sm], [%a], 16, [bar];"
    text = kernel(line, registers=_REGISTERS).replace("sm_100a", target)
    with pytest.raises((InvalidPtxError, PtxSyntaxError), match="sm_90"):
        compiler.compile_ptx(text, capability=(9, 0))


@pytest.mark.parametrize(
    ("place", "version", "accepted"),
    [
        ("shared::cta", "8.5", False),
        ("shared::cta", "8.6", True),
        ("shared::cluster", "8.5", True),
    ],
)
@pytest.mark.parametrize("copy", ["", ".tensor.1d"])
def test_copies_to_shared_memory_of_the_block_are_of_ptx_8_6(
    copy: str, place: str, version: str, accepted: bool
) -> None:
    operands = "[%m, {%r1}], [bar]" if copy else "[%m], 16, [bar]"
    line = f"cp.async.bulk{copy}.{place}.global.{_COMPLETES} [%s], {operands};"
    text = kernel(line, registers=_REGISTERS).replace("9.4", version).replace("sm_100a", "sm_90")
    if accepted:
        compiler.compile_ptx(text, capability=(9, 0))
        return
    with pytest.raises(InvalidPtxError, match=r"8\.6"):
        compiler.compile_ptx(text, capability=(9, 0))


@pytest.mark.parametrize("copy", ["", ".tensor.1d"])
def test_copies_from_shared_memory_of_the_block_are_older(copy: str) -> None:
    operands = "[%m, {%r1}], [%s]" if copy else "[%m], [%s], 16"
    line = f"cp.async.bulk{copy}.global.shared::cta.bulk_group {operands};"
    text = kernel(line, registers=_REGISTERS).replace("9.4", "8.0").replace("sm_100a", "sm_90")
    compiler.compile_ptx(text, capability=(9, 0))


def test_a_site_of_a_copy_is_no_larger_than_stated() -> None:
    line = (
        f"cp.async.bulk.tensor.2d.shared::cluster.global.{_COMPLETES}"
        " [sm], [%m, {%r1, %r2}], [bar];"
    )
    assert len(_words(line)) < 350


@pytest.mark.parametrize(
    ("mode", "near", "target", "accepted"),
    [
        ("tile::gather4", "shared::cta", "sm_100", True),
        ("tile::gather4", "shared::cluster", "sm_100", False),
        ("tile::gather4", "shared::cluster", "sm_100a", True),
        ("tile::gather4", "shared::cta", "sm_90", False),
    ],
)
def test_targets_that_gather(mode: str, near: str, target: str, accepted: bool) -> None:
    line = f"cp.async.bulk.tensor.2d.{near}.global.{mode}.{_COMPLETES}"
    line += " [%s], [%m, {%r1, %r2, %r3, %r4, %r5}], [bar];"
    text = kernel(line, registers=_REGISTERS).replace("sm_100a", target)
    if accepted:
        compiler.compile_ptx(text, capability=(10, 0))
        return
    with pytest.raises(InvalidPtxError, match="sm_100"):
        compiler.compile_ptx(text, capability=(10, 0))
