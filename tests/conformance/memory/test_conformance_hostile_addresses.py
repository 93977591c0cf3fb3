"""Addresses that a program chose, in the memory of clusters' blocks and in wgmma's descriptors.

TESSERA_HOSTILE_ADDRESSES sets how many of each family; ``make fuzz descriptors=1 n=...`` sets it
and the numbers of the other tests of hostile descriptors and maps.
"""

import os
import random
import signal
from collections import Counter

import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compiler
from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.exec.errors import KernelError
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

_ADDRESSES = int(os.environ.get("TESSERA_HOSTILE_ADDRESSES", "60"))
_SHARED_BYTES, _CLUSTER = 4096, (2, 1, 1)
_DESCRIPTOR = 128 >> 4 << 16 | 256 >> 4 << 32
_COMPLETE = "mbarrier::complete_tx::bytes"
_FAMILIES = {
    "ld.shared::cluster": "ld.shared::cluster.v4.u32 {%r0, %r1, %r2, %r3}, [%a0];",
    "st.shared::cluster": "st.shared::cluster.u64 [%a0], %x1;",
    "atom.shared::cluster": "atom.shared::cluster.add.u32 %r0, [%a0], %a1;",
    "mapa": "mapa.shared::cluster.u32 %r1, %a0, %a1; ld.shared::cluster.u32 %r0, [%r1];",
    "st.async": f"st.async.shared::cluster.{_COMPLETE}.b32 [%a0], %a2, [%a1];",
    "red.async": f"red.async.relaxed.cluster.shared::cluster.{_COMPLETE}.add.u32"
    " [%a0], %a2, [%a1];",
    "mbarrier.arrive": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%a0];",
    "cp.async.bulk to a peer": f"cp.async.bulk.shared::cluster.shared::cta.{_COMPLETE}"
    " [%a0], [%a1], %a2, [%a3];",
    "cp.async.bulk multicast": f"cp.async.bulk.shared::cluster.global.{_COMPLETE}"
    ".multicast::cluster [%a0], [%x1], %a2, [%a3], %h;",
    "cp.async.bulk from shared": "cp.async.bulk.global.shared::cta.bulk_group [%x0], [%a1], %a2;",
    "cp.reduce.async.bulk": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    " [%x0], [%a1], %a2;",
    "generic": "ld.u32 %r0, [%x0]; st.u32 [%x1], %r0;",
    "wgmma": "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3},"
    " %x0, %x1, %p, 1, 1, 0, 0;",
}


def _source(family: str) -> str:
    whole = family == "wgmma"
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4)
{"" if whole else ".reqnctapercluster 2"}
{{
  .shared .align 1024 .b8 tile[{_SHARED_BYTES}];
  .reg .b32 %r<8>, %a<4>, %t; .reg .b64 %x<4>, %out; .reg .b16 %h; .reg .f32 %f<4>; .reg .pred %p;
  ld.param.u64 %out, [p0]; mov.u32 %r0, 0;
  ld.param.u64 %x0, [p1]; ld.param.u64 %x1, [p2]; ld.param.u64 %x2, [p3]; ld.param.u64 %x3, [p4];
  cvt.u32.u64 %a0, %x0; cvt.u32.u64 %a1, %x1; cvt.u32.u64 %a2, %x2; cvt.u32.u64 %a3, %x3;
  cvt.u16.u32 %h, %a1;
  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0;
  st.shared.b64 [tile], 0;
  {"mov.pred %p, 0;" if whole else "@%p bra PAST;"}
  {_FAMILIES[family]}
  st.global.u32 [%out+1024], %r0;  // so that what was loaded is used
PAST:
  ret;
}}
"""


def _words(draw: random.Random, family: str, buffer: int) -> list[int]:
    """Return four words: of an address, often that of a byte which a block may access."""

    def word(bits: int, legal: int) -> int:
        kind = draw.randrange(6)
        if kind == 0:
            return draw.getrandbits(bits)
        if kind in (1, 2):
            for _ in range(kind):
                legal ^= 1 << draw.randrange(bits)
        return legal & ((1 << bits) - 1)

    if family == "wgmma":
        return [word(64, _DESCRIPTOR), word(64, _DESCRIPTOR), 0, 0]

    def shared() -> int:
        rank = draw.choice((0, 0, 2, 3, draw.randrange(256)))
        return word(32, rank << 24 | draw.randrange(_SHARED_BYTES // 16) * 16)

    inside = word(64, buffer + draw.randrange(16) * 16)
    size = word(32, 16 * draw.randrange(1, 9))
    if family == "generic":
        return [inside, word(64, buffer), 0, 0]
    if family == "cp.async.bulk multicast":
        return [shared(), inside, size, shared()]
    if "[%x0]" in _FAMILIES[family]:
        return [inside, shared(), size, 0]
    return [shared(), draw.choice((0, 1, 2, 8, shared())), size, shared()]


@pytest.mark.parametrize("family", _FAMILIES)
def test_no_access_leaves_the_slice(family: str) -> None:
    draw, ends = random.Random(family), Counter[bool]()
    whole = family == "wgmma"
    module = compile_verified(_source(family), (9, 0))
    function, block = module.functions[0], (128 if whole else 32, 1, 1)
    cluster, blocks = (None, 1) if whole else (_CLUSTER, 2)
    assert prover.prove(compiler().emit_llvm(module, function, block, None)) > 0
    loaded = compiler().load(compiler().compile(module, function, block, None))
    bench = Bench(bytes(4096))
    try:
        (buffer,) = bench.addresses()
        first = bench.aperture.base - native_launch.BEFORE_BYTES
        last = first + bench.aperture.reserved_bytes
        each = local_bytes(function)
        launch = native_launch.context(
            bench.aperture, (blocks, 1, 1), block, 0, 0, each, cluster=cluster
        )
        for number in range(_ADDRESSES):
            words = _words(draw, family, buffer)
            parameters = native_launch.pack(
                function.parameters, function.parameter_bytes, [buffer, *words]
            )
            ended = native_launch.run(loaded, launch, parameters, [(0, 1)], function.shared_bytes)
            assert ended.signal in (0, signal.SIGSEGV, signal.SIGBUS), (ended, words)
            well = not ended.signal and not ended.status
            outside = ended.signal and not first <= ended.address < last
            if outside or number % 20 == 0:
                error = _interpret(bench, module, blocks, block, parameters)
                assert (error == "") == well, (words, ended, error)
                assert not outside or "shared" in error, (words, ended, error)
            ends[well] += 1
    finally:
        bench.close()
    assert min(ends[True], ends[False]) > _ADDRESSES // 50, ends


def _interpret(
    bench: Bench, module: Module, blocks: int, block: tuple[int, int, int], parameters: bytes
) -> str:
    """Return the error with which the interpreter ends the kernel; empty if there is none."""
    try:
        bench.interpret(module, (blocks, 1, 1), block, parameters)
    except KernelError as error:
        return str(error) or "an error"
    return ""
