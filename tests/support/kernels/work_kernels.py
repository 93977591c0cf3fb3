"""PTX of kernels whose blocks wait for copies, end early, choose pages by a hash, or share a queue."""

_HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k({parameters})
{{
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .f32 %f<9>; .reg .b64 %rd<20>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
"""
_ADD_WORD = """mul.wide.u32 %rd3, {index}, 4;
add.u64 %rd4, %rd0, %rd3;
ld.global.f32 %f0, [%rd4];
fma.rn.f32 %f0, %f0, %f0, %f0;
add.u64 %rd4, %rd1, %rd3;
st.global.f32 [%rd4], %f0;
"""


def _kernel(body: str, buffers: int, numbers: int, declared: str = "") -> str:
    sizes = [64] * buffers + [32] * numbers
    parameters = ", ".join(f".param .u{bits} p{n}" for n, bits in enumerate(sizes))
    loads = "".join(f"ld.param.u64 %rd{n}, [p{n}];\n" for n in range(buffers))
    loads += "".join(f"ld.param.u32 %r{20 + n}, [p{buffers + n}];\n" for n in range(numbers))
    return _HEAD.format(parameters=parameters) + declared + loads + body + "\nret;\n}\n"


def make_copy_kernel(wait: str = "mbarrier.try_wait.parity.shared::cta.b64") -> str:
    """Each block loads %r20 pieces of %r21 bytes by bulk copies, one after another."""
    declared = ".shared .align 128 .b8 room[16384]; .shared .align 8 .b8 bar[8];\n"
    body = f"""mov.u32 %r5, bar; mov.u32 %r6, room;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra S;
mbarrier.init.shared::cta.b64 [%r5], 1;
S:
bar.sync 0;
mul.lo.u32 %r7, %r1, %r20;
mul.wide.u32 %rd2, %r7, %r21;
add.u64 %rd2, %rd0, %rd2;
cvt.u64.u32 %rd5, %r21;
mov.u32 %r8, 0; mov.u32 %r12, 0;
L:
@%p0 bra W;
mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r5], %r21;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd2], %r21, [%r5];
W:
and.b32 %r9, %r8, 1;
T:
{wait} %p1, [%r5], %r9;
@!%p1 bra T;
shl.b32 %r10, %r0, 2;
add.u32 %r10, %r6, %r10;
ld.shared.u32 %r11, [%r10];
add.u32 %r12, %r12, %r11;
bar.sync 0;
add.u64 %rd2, %rd2, %rd5;
add.u32 %r8, %r8, 1;
setp.lt.u32 %p2, %r8, %r20;
@%p2 bra L;
mad.lo.u32 %r14, %r1, %r2, %r0;
mul.wide.u32 %rd5, %r14, 4;
add.u64 %rd5, %rd1, %rd5;
st.global.u32 [%rd5], %r12;"""
    return _kernel(body, 2, 2, declared)


def make_early_exit_kernel(first: int = 0) -> str:
    """Of the first %r21 blocks, only each %r20th works, from block ``first`` on."""
    body = f"""rem.u32 %r3, %r1, %r20;
setp.ne.u32 %p0, %r3, {first};
@%p0 bra E;
setp.ge.u32 %p0, %r1, %r21;
@%p0 bra E;
mad.lo.u32 %r4, %r1, %r2, %r0;
{_ADD_WORD.format(index="%r4")}E:"""
    return _kernel(body, 2, 2)


def make_hash_kernel() -> str:
    """Each block reads one of %r20 pages of 1 KiB, which a hash of its index chooses."""
    body = """mul.lo.u32 %r3, %r1, 2654435761;
shr.u32 %r3, %r3, 7;
rem.u32 %r3, %r3, %r20;
shl.b32 %r3, %r3, 8;
add.u32 %r3, %r3, %r0;
mul.wide.u32 %rd3, %r3, 4;
add.u64 %rd3, %rd0, %rd3;
ld.global.u32 %r4, [%rd3];
mad.lo.u32 %r5, %r1, %r2, %r0;
mul.wide.u32 %rd4, %r5, 4;
add.u64 %rd4, %rd1, %rd4;
st.global.u32 [%rd4], %r4;"""
    return _kernel(body, 2, 1)


def make_queue_kernel(space: str = "shared") -> str:
    """Blocks take items of 256 words, of which there are %r20, until none is left. The first thread
    fetches an item, and passes it to the others through ``space``: global memory has a word for
    each block behind the counter.
    """
    place = "item" if space == "shared" else "%rd5+4"
    body = f"""setp.ne.u32 %p0, %r0, 0;
mul.wide.u32 %rd5, %r1, 4;
add.u64 %rd5, %rd2, %rd5;
L:
@%p0 bra S;
atom.global.add.u32 %r3, [%rd2], 1;
st.{space}.u32 [{place}], %r3;
S:
bar.sync 0;
ld.{space}.u32 %r4, [{place}];
bar.sync 0;
setp.ge.u32 %p1, %r4, %r20;
@%p1 bra E;
shl.b32 %r5, %r4, 8;
add.u32 %r5, %r5, %r0;
{_ADD_WORD.format(index="%r5")}bra L;
E:"""
    return _kernel(body, 3, 1, ".shared .align 4 .b8 item[4];\n")
