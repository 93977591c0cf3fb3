"""Cases of one kernel each: instructions of warps, blocks and clusters, atomics, special registers."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.silicon.values.bundle import Store
from benchmarks.silicon.values.lanes import HEAD

_OUT_BYTES = 1 << 14


def kernel(
    name: str,
    body: str,
    *,
    header: str = "",
    block: tuple[int, int, int] = (32, 1, 1),
    grid: tuple[int, int, int] = (1, 1, 1),
    cluster: tuple[int, int, int] | None = None,
    directives: str = "",
    data: bytes = b"",
    shared: int = 0,
    store: Store,
    out: list[int] | None = None,
) -> dict[str, Any]:
    """Return a case whose body stores at %o (16 bytes per thread), and may read and update %g.

    %t is the thread in the grid; %a to %h have 32 bits, %A to %H 64 bits, %s0 to %s7 16 bits.
    """
    threads = f"{block[0] * block[1] * block[2]}"
    text = f"""{HEAD}{header}
.visible .entry k(.param .u64 po, .param .u64 pg) {directives}
{{
    .reg .b64 %o, %g, %A, %B, %C, %D, %E, %F, %G, %H; .reg .b32 %t, %u, %a, %b, %c, %d, %e, %f, %x, %y;
    .reg .b16 %s<8>; .reg .pred %p, %q, %r; .reg .b128 %Q, %R, %S;
    ld.param.u64 %o, [po]; ld.param.u64 %g, [pg];
    mov.u32 %t, %tid.z; mov.u32 %u, %ntid.y; mov.u32 %a, %tid.y; mad.lo.u32 %t, %t, %u, %a;
    mov.u32 %u, %ntid.x; mov.u32 %a, %tid.x; mad.lo.u32 %t, %t, %u, %a;
    mov.u32 %u, %ctaid.z; mov.u32 %a, %nctaid.y; mov.u32 %b, %ctaid.y; mad.lo.u32 %u, %u, %a, %b;
    mov.u32 %a, %nctaid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %u, %u, %a, %b;
    mad.lo.u32 %t, %u, {threads}, %t; mad.wide.u32 %o, %t, 16, %o;
    mov.u32 %a, 0; mov.u32 %b, 0; mov.u32 %c, 0; mov.u32 %d, 0;
    {body}
    st.global.v4.b32 [%o], {{%a, %b, %c, %d}};
    ret;
}}
"""
    count = int(threads) * grid[0] * grid[1] * grid[2]
    return {
        "id": name,
        "group": name.split("/")[0],
        "ptx": text,
        "entry": "k",
        "grid": list(grid),
        "block": list(block),
        "cluster": list(cluster) if cluster else None,
        "shared": shared,
        "params": bytes(16).hex(),
        "buffers": [[16 * count, 0], [store.add(data) if data else 4096, 0]],
        "relocs": [["p", 0, 0, 0], ["p", 8, 1, 0]],
        "out": out if out is not None else [0, 1],
    }


def _shuffles(store: Store) -> Iterator[dict[str, Any]]:
    for mode in ("up", "down", "bfly", "idx"):
        for segment in (0x1F, 0x0, 0x181F, 0x1C03, 0x1F1F, 0x0F, 0xFFFFFFFF):
            for lane in (0, 1, 3, 16, 31, 32, 33, 0xFFFFFFFF):
                body = f"mul.lo.u32 %e, %t, 257; shfl.sync.{mode}.b32 %a|%p, %e, {lane}, {segment}, -1;"
                body += " selp.b32 %b, 1, 0, %p;"
                body += (
                    f" shfl.sync.{mode}.b32 %c|%q, %e, %t, {segment}, -1; selp.b32 %d, 1, 0, %q;"
                )
                yield kernel(f"shfl/{mode}.{segment:x}.{lane:x}", body, store=store)
        half = "setp.lt.u32 %r, %t, 16; @!%r bra L;"
        body = f"mul.lo.u32 %e, %t, 257; {half} shfl.sync.{mode}.b32 %a|%p, %e, 3, 31, 0xffff;"
        body += " selp.b32 %b, 1, 0, %p; L:"
        yield kernel(f"shfl/{mode}.half", body, store=store)


def _votes(store: Store) -> Iterator[dict[str, Any]]:
    for mask in (0xFFFFFFFF, 0x0000FFFF, 0x80000001, 0x12345678):
        inside = f"mov.u32 %x, {mask}; shr.u32 %y, %x, %t; and.b32 %y, %y, 1; setp.eq.u32 %r, %y, 1; @!%r bra L;"
        for name, body in {
            "match.any": "shr.u32 %e, %t, 2; and.b32 %e, %e, 3; match.any.sync.b32 %a, %e, %x;"
            " cvt.u64.u32 %A, %e; mul.lo.u64 %A, %A, 0x100000001; match.any.sync.b64 %b, %A, %x;",
            "match.all": "shr.u32 %e, %t, 5; match.all.sync.b32 %a|%p, %e, %x; selp.b32 %b, 1, 0, %p;"
            " match.all.sync.b32 %c|%p, %t, %x; selp.b32 %d, 1, 0, %p;",
            "redux": "mul.lo.u32 %e, %t, 0x9E3779B1; redux.sync.add.s32 %a, %e, %x; redux.sync.min.s32 %b, %e, %x;"
            " redux.sync.max.u32 %c, %e, %x; redux.sync.xor.b32 %d, %e, %x;",
            "redux2": "mul.lo.u32 %e, %t, 0x9E3779B1; redux.sync.min.u32 %a, %e, %x; redux.sync.max.s32 %b, %e, %x;"
            " redux.sync.and.b32 %c, %e, %x; redux.sync.or.b32 %d, %e, %x;",
            "vote": "and.b32 %e, %t, 5; setp.eq.u32 %p, %e, 4; vote.sync.ballot.b32 %a, %p, %x;"
            " vote.sync.any.pred %q, %p, %x; selp.b32 %b, 1, 0, %q; vote.sync.uni.pred %q, %p, %x; selp.b32 %c, 1, 0, %q;"
            " vote.sync.all.pred %q, %p, %x; selp.b32 %d, 1, 0, %q;",
            "elect": "elect.sync %a|%p, %x; selp.b32 %b, 1, 0, %p; activemask.b32 %c;",
        }.items():
            yield kernel(f"{name}/{mask:x}", f"{inside} {body} L:", store=store)
    for shift in range(1, 6):
        body = f"shr.u32 %e, %t, {shift - 1}; and.b32 %e, %e, 1; setp.eq.u32 %p, %e, 0; @%p bra L;"
        body += " activemask.b32 %a; mul.lo.u32 %b, %a, 3; bra.uni M; L: activemask.b32 %c; M: bar.warp.sync -1; activemask.b32 %d;"
        yield kernel(f"activemask/{shift}", body, store=store)


_OPERATIONS = {
    "b32": "and or xor exch cas",
    "b64": "and or xor exch cas",
    "u32": "add min max inc dec",
    "s32": "add min max",
    "u64": "add min max",
    "s64": "min max",
    "f32": "add",
    "f64": "add",
    "f16": "add.noftz",
    "f16x2": "add.noftz",
    "bf16": "add.noftz",
    "bf16x2": "add.noftz",
    "b16": "cas",
    "b128": "exch cas",
}


def _atomics(store: Store) -> Iterator[dict[str, Any]]:
    """Return updates by one thread per place, so that order does not matter, and integer races."""
    dice = np.random.default_rng(5)
    special = [
        0,
        1,
        0x80000000,
        0x7FFFFFFF,
        0xFFFFFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00001,
        0x3F800000,
    ]
    special += [0x00400000, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7C007E01, 0x03FF8001, 0x007F7F80]
    words = np.array([*special] * 16, np.uint32)
    words = np.concatenate([words, np.repeat(np.array(special, np.uint32), 16)])
    data = np.concatenate([words[:256], words[-256:]])
    test_words = np.concatenate([data, dice.integers(0, 1 << 32, 2048, np.uint32)])
    for type_, operations in _OPERATIONS.items():
        width = int("".join(c for c in type_.split("x")[0] if c.isdigit())) * (
            2 if "x2" in type_ else 1
        )
        for operation, space in itertools.product(operations.split(), ("global", "shared")):
            yield _atomic(type_, width, operation, space, test_words.tobytes(), store)
    for operation in ("add.u32", "min.s32", "max.u32", "inc.u32", "dec.u32", "xor.b32", "add.u64"):
        wide = operation.endswith("64")
        value = "%A" if wide else "%e"
        body = f"mul.lo.u32 %e, %t, 0x9E3779B1; cvt.u64.u32 %A, %e; red.global.{operation} [%g], {value};"
        yield kernel(f"red/{operation}", body, block=(256, 1, 1), grid=(8, 1, 1), store=store)
    for level in (2, 4):
        for type_ in ("f32", "f16x2", "bf16x2", "f16", "bf16"):
            vector = f"v{level}"
            ending = ".noftz" if type_ != "f32" else ""
            size = {"f32": 4, "f16x2": 4, "bf16x2": 4, "f16": 2, "bf16": 2}[type_]
            regs = ", ".join(f"%s{n}" if size == 2 else f"%{'abcd'[n]}" for n in range(level))
            new = ", ".join(f"%s{n + 4}" if size == 2 else f"%{'efxy'[n]}" for n in range(level))
            body = f"mad.wide.u32 %A, %t, {size * level}, %g; add.u64 %B, %A, 2048;"
            body += f" ld.global.{vector}.b{8 * size} {{{new}}}, [%B];"
            body += f" atom.global.{vector}.{type_}.add{ending} {{{regs}}}, [%A], {{{new}}};"
            if size == 2:
                body += " mov.b32 %a, {%s0, %s1};"
            yield kernel(
                f"atom.vector/{vector}.{type_}", body, data=test_words.tobytes(), store=store
            )


def _atomic(
    type_: str, width: int, operation: str, space: str, data: bytes, store: Store
) -> dict[str, Any]:
    size = width // 8
    v = {16: "%s", 32: "%", 64: "%", 128: "%"}[width]
    x, y, z = {
        16: ("%s0", "%s1", "%s2"),
        32: ("%e", "%f", "%x"),
        64: ("%A", "%B", "%C"),
        128: ("%Q", "%R", "%S"),
    }[width]
    assert v
    place = f"mad.wide.u32 %D, %t, {size}, %g; add.u64 %E, %D, 4096;"
    load = f"ld.global.b{width} {y}, [%E];"
    third = ""
    if operation == "cas":
        third = f", {z}"
        # Compare with the old value in even threads.
        load += f" ld.global.b{width} {z}, [%D]; and.b32 %u, %t, 1; setp.eq.u32 %p, %u, 0;"
        if width < 128:
            load += (
                f" selp.b{width} {x}, {z}, {y}, %p; mov.b{width} {z}, {y}; mov.b{width} {y}, {x};"
            )
        else:
            load += " mov.b128 %Q, %S; mov.b128 %S, %R; @%p mov.b128 %R, %Q;"
    if space == "global":
        text = f"{place} {load} atom.global.{operation}.{type_} {x}, [%D], {y}{third};"
    else:
        text = f"{place} {load} mov.u32 %y, tile; mad.lo.u32 %y, %t, {size}, %y; ld.global.b{width} {x}, [%D];"
        text += f" st.shared.b{width} [%y], {x}; bar.sync 0;"
        text += f" atom.shared.{operation}.{type_} {x}, [%y], {y}{third}; ld.shared.b{width} {z}, [%y]; st.global.b{width} [%D], {z};"
    show = {16: "cvt.u32.u16 %a, %s0;", 32: "mov.b32 %a, %e;", 64: "mov.b64 {%a, %b}, %A;"}
    text += show.get(width, "mov.b128 {%A, %B}, %Q; mov.b64 {%a, %b}, %A; mov.b64 {%c, %d}, %B;")
    text = text.replace("atom.global.cas.b128", "atom.global.cas.b128")
    header = f".shared .align 16 .b8 tile[{size * 256}];"
    return kernel(
        f"atom/{space}.{operation}.{type_}",
        text,
        header=header,
        block=(256, 1, 1),
        data=data,
        store=store,
    )


_REGISTERS = [
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "gridid",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "is_explicit_cluster",
    "clusterid.x",
    "nclusterid.x",
    "cluster_ctaid.x",
    "cluster_ctaid.y",
    "cluster_nctaid.x",
    "cluster_nctaid.y",
    "cluster_ctarank",
    "cluster_nctarank",
    "total_smem_size",
    "aggr_smem_size",
    "dynamic_smem_size",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
    "reserved_smem_offset_0",
    "reserved_smem_offset_1",
    "envreg0",
    "envreg1",
    "tid.w",
    "ntid.w",
    "ctaid.w",
    "nctaid.w",
    "pm0",
    "clock",
    "globaltimer_hi",
]


def _registers(store: Store) -> Iterator[dict[str, Any]]:
    for name in _REGISTERS:
        shared = 1000 if name.startswith(("total", "aggr", "dynamic")) else 0
        body = (
            f"mov.u32 %a, %{name};"
            if name != "gridid"
            else "mov.u64 %A, %gridid; setp.ne.u64 %p, %A, 0; selp.b32 %a, 1, 0, %p;"
        )
        header = ".shared .align 16 .b8 tile[300];" if shared else ""
        if shared:
            body += " mov.u32 %e, tile; st.shared.u32 [%e], %a;"
        for cluster in (None, (2, 1, 1)):
            label = "c" if cluster else "p"
            yield kernel(
                f"special/{name}.{label}", body, header=header, block=(64, 1, 1), grid=(4, 2, 1),
                cluster=cluster, shared=shared, store=store,
            )  # fmt: skip
    yield kernel(
        "special/clock.grows",
        "mov.u64 %A, %clock64; mov.u32 %e, %clock; nanosleep.u32 100; mov.u64 %B, %clock64;"
        " setp.gt.u64 %p, %B, %A; selp.b32 %a, 1, 0, %p; cvt.u32.u64 %f, %A; sub.u32 %f, %e, %f; setp.lt.u32 %p, %f, 4096; selp.b32 %b, 1, 0, %p;"
        " mov.u64 %A, %globaltimer; nanosleep.u32 4000; mov.u64 %B, %globaltimer; setp.ge.u64 %p, %B, %A; selp.b32 %c, 1, 0, %p;",
        store=store,
    )
    windows = [
        "global",
        "shared",
        "const",
        "local",
        "param",
        "param::entry",
        "shared::cta",
        "shared::cluster",
    ]
    sources = {
        "global": "mov.u64 %A, %g;", "shared": "cvta.shared.u64 %A, 16;", "zero": "mov.u64 %A, 0;",
        "const": "mov.u64 %A, c; cvta.const.u64 %A, %A;", "ones": "mov.u64 %A, -1;",
        "param": "mov.u64 %A, pg; cvta.param.u64 %A, %A;",
        "local": "mov.u64 %A, l; cvta.local.u64 %A, %A;",
        "peer": "mov.u32 %e, tile; mapa.shared::cluster.u32 %e, %e, 1; cvt.u64.u32 %A, %e; cvta.shared::cluster.u64 %A, %A;",
        "own": "mov.u32 %e, tile; mapa.shared::cluster.u32 %e, %e, 0; cvt.u64.u32 %A, %e; cvta.shared::cluster.u64 %A, %A;",
    }  # fmt: skip
    for name, source in sources.items():
        for window in windows:
            body = f".local .align 8 .b8 l[16]; mov.u64 %B, l; st.local.u32 [%B], %t; {source}"
            body += f" isspacep.{window} %p, %A; selp.b32 %a, 1, 0, %p; st.shared.u32 [tile], %t;"
            if name in ("shared", "peer", "own"):
                body += " getctarank.u64 %b, %A; and.b64 %A, %A, 0xFFFFFF; cvt.u32.u64 %c, %A;"
            yield kernel(
                f"isspacep/{name}.{window}", body, header=".const .u32 c = 7; .shared .align 16 .b8 tile[64];",
                grid=(2, 1, 1), cluster=(2, 1, 1), store=store,
            )  # fmt: skip
    for rank in (0, 1, 2, 3, 4, 7, 8, 255):
        body = f"mov.u32 %e, tile; mapa.shared::cluster.u32 %f, %e, {rank}; getctarank.shared::cluster.u32 %a, %f;"
        body += " and.b32 %b, %f, 0xFFFFFF; sub.u32 %c, %f, %e; st.shared.u32 [tile], %t;"
        yield kernel(
            f"mapa/{rank}", body, header=".shared .align 16 .b8 tile[64];", grid=(4, 1, 1), cluster=(4, 1, 1), store=store,
        )  # fmt: skip


def _barriers(store: Store) -> Iterator[dict[str, Any]]:
    show = "ld.shared.b64 %A, [bar]; mov.b64 {%a, %b}, %A;"
    header = ".shared .align 8 .b64 bar;"
    steps = {
        "init1": "mbarrier.init.shared.b64 [bar], 1;",
        "init5": "mbarrier.init.shared.b64 [bar], 5;",
        "most": "mbarrier.init.shared.b64 [bar], 1048575;",
        "arrive": "mbarrier.init.shared.b64 [bar], 5; mbarrier.arrive.shared.b64 %B, [bar]; mov.b64 {%c, %d}, %B;",
        "pending": "mbarrier.init.shared.b64 [bar], 5; mbarrier.arrive.shared.b64 %B, [bar]; mbarrier.pending_count.b64 %c, %B;",
        "whole": "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 %B, [bar]; mov.b64 {%c, %d}, %B;",
        "two": "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 _, [bar]; mbarrier.arrive.shared.b64 %B, [bar]; mov.b64 {%c, %d}, %B;",
        "tx": "mbarrier.init.shared.b64 [bar], 2; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 64;",
        "txmost": "mbarrier.init.shared.b64 [bar], 2; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048575;",
        "txarrive": "mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.expect_tx.shared.b64 %B, [bar], 48; mov.b64 {%c, %d}, %B;",
        "txdone": "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 48; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 48;",
        "drop": "mbarrier.init.shared.b64 [bar], 5; mbarrier.arrive_drop.shared.b64 %B, [bar]; mov.b64 {%c, %d}, %B;",
        "count": "mbarrier.init.shared.b64 [bar], 5; mbarrier.arrive.noComplete.shared.b64 %B, [bar], 3; mov.b64 {%c, %d}, %B;",
        "inval": "mbarrier.init.shared.b64 [bar], 5; mbarrier.inval.shared.b64 [bar];",
        "test": "mbarrier.init.shared.b64 [bar], 1; mbarrier.test_wait.parity.shared.b64 %p, [bar], 0; mbarrier.test_wait.parity.shared.b64 %q, [bar], 1;"
        " selp.b32 %c, 1, 0, %p; selp.b32 %d, 1, 0, %q;",
        "test2": "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 %B, [bar]; mbarrier.test_wait.shared.b64 %p, [bar], %B; mbarrier.test_wait.parity.shared.b64 %q, [bar], 1;"
        " selp.b32 %c, 1, 0, %p; selp.b32 %d, 1, 0, %q;",
    }  # fmt: skip
    for name, body in steps.items():
        yield kernel(
            f"mbarrier/{name}",
            f"setp.ne.u32 %p, %t, 0; @%p bra L; {body} {show} L:",
            header=header,
            store=store,
        )


def _fetches(store: Store) -> Iterator[dict[str, Any]]:
    """Return instructions with an immediate that selects a function."""
    words = np.random.default_rng(1).integers(0, 1 << 32, 1024, np.uint32).tobytes()
    load = "mad.wide.u32 %A, %t, 16, %g; ld.global.v4.b32 {%e, %f, %x, %y}, [%A];"
    for table in (0, 1, 0x1B, 0x80, 0x96, 0xAC, 0xE8, 0xFF, 0x3C):
        yield kernel(
            f"lop3/{table:x}", f"{load} lop3.b32 %a, %e, %f, %x, {table};", data=words, store=store
        )
    for word in (0x12345678, 0x80000000, 0xFFFFFFFF, 0):
        yield kernel(
            f"bfind/{word:x}",
            f"mov.u32 %e, {word}; bfind.u32 %a, %e; bfind.s32 %b, %e; bfind.shiftamt.u32 %c, %e; bfind.shiftamt.s32 %d, %e;",
            store=store,
        )


def cases(store: Store) -> Iterator[dict[str, Any]]:
    """Return all of them."""
    for family in (_shuffles, _votes, _atomics, _registers, _barriers, _fetches):
        yield from family(store)
