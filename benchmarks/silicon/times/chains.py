"""Chains of one instruction: latency (one warp) and throughput (full multiprocessors)."""

from typing import Final

from benchmarks.silicon.times.points import Point, entry, pointers

_ITERATIONS: Final = 128
_UNROLLED: Final = 32
_CHAINS: Final = 8
_SMS: Final = 132
_START: Final = """\
  ld.param.u32 %r200, [p1]; ld.param.f32 %f200, [p2]; ld.param.f32 %f201, [p3];
  mov.u32 %r0, %tid.x; or.b32 %r201, %r200, 1; add.u32 %r202, %r201, %r0;
  cvt.u64.u32 %l100, %r202; cvt.f64.f32 %d50, %f200; cvt.f64.f32 %d51, %f201;
  add.u32 %r203, %r200, 0x3c003bfb; add.u32 %r204, %r200, 0x380037fb;
"""

# name: (register class, code). {v} is the chain's register, {w} a second register of the chain.
# %r201, %r202: odd integers; %f200 is near 1, %f201 near 0.5; %d50 and %d51 likewise.
_OPS: Final[dict[str, tuple[str, str]]] = {
    "add.f32": ("f", "add.f32 {v}, {v}, %f201;"),
    "mul.f32": ("f", "mul.f32 {v}, {v}, %f200;"),
    "fma.f32": ("f", "fma.rn.f32 {v}, {v}, %f200, %f201;"),
    "min-max.f32": ("f", "min.f32 {v}, {v}, %f200; max.f32 {v}, {v}, %f201;"),
    "div.rn.f32": ("f", "div.rn.f32 {v}, %f200, {v};"),
    "div.approx.f32": ("f", "div.approx.f32 {v}, %f200, {v};"),
    "sqrt.rn.f32": ("f", "sqrt.rn.f32 {v}, {v};"),
    "sqrt.approx.f32": ("f", "sqrt.approx.f32 {v}, {v};"),
    "rcp.rn.f32": ("f", "rcp.rn.f32 {v}, {v};"),
    "rcp.approx.ftz.f32": ("f", "rcp.approx.ftz.f32 {v}, {v}; add.f32 {v}, {v}, %f201;"),
    "rsqrt.approx.ftz.f32": ("f", "rsqrt.approx.ftz.f32 {v}, {v};"),
    "ex2.approx.ftz.f32": ("f", "ex2.approx.ftz.f32 {v}, {v};"),
    "lg2.approx.ftz.f32": ("f", "lg2.approx.ftz.f32 {v}, {v};"),
    "sin.approx.f32": ("f", "sin.approx.f32 {v}, {v};"),
    "tanh.approx.f32": ("f", "tanh.approx.f32 {v}, {v};"),
    "add.f64": ("d", "add.f64 {v}, {v}, %d51;"),
    "fma.f64": ("d", "fma.rn.f64 {v}, {v}, %d50, %d51;"),
    "div.rn.f64": ("d", "div.rn.f64 {v}, %d50, {v};"),
    "sqrt.rn.f64": ("d", "sqrt.rn.f64 {v}, {v};"),
    "fma.f16x2": ("r", "fma.rn.f16x2 {v}, {v}, %r203, %r204;"),
    "fma.bf16x2": ("r", "fma.rn.bf16x2 {v}, {v}, %r203, %r204;"),
    "add.u32": ("r", "add.u32 {v}, {v}, {w}; add.u32 {w}, {w}, {v};"),
    "mad.lo.u32": ("r", "mad.lo.u32 {v}, {v}, %r201, %r202;"),
    "mul.hi.u32": ("r", "mul.hi.u32 {v}, {v}, %r202;"),
    "mul24.lo.u32": ("r", "mul24.lo.u32 {v}, {v}, %r202;"),
    "mul.wide.u32": ("l", "cvt.u32.u64 {w}, {v}; mul.wide.u32 {v}, {w}, %r202;"),
    "dp4a": ("r", "dp4a.u32.u32 {v}, {v}, %r202, {v};"),
    "xor-shift.b32": ("r", "shl.b32 {w}, {v}, 7; xor.b32 {v}, {v}, {w};"),
    "lop3.b32": ("r", "lop3.b32 {v}, {v}, %r201, {w}, 0x96; lop3.b32 {w}, {v}, %r202, {w}, 0x6a;"),
    "shf.b32": ("r", "shf.l.wrap.b32 {v}, {v}, %r202, 5;"),
    "prmt.b32": ("r", "prmt.b32 {v}, {v}, %r202, 0x2175;"),
    "popc.b32": ("r", "popc.b32 {v}, {v}; add.u32 {v}, {v}, %r202;"),
    "clz.b32": ("r", "clz.b32 {v}, {v}; add.u32 {v}, {v}, %r202;"),
    "bfe.u32": ("r", "bfe.u32 {v}, {v}, 3, 20; xor.b32 {v}, {v}, %r202;"),
    "min.s32": ("r", "min.s32 {v}, {v}, %r201; max.s32 {v}, {v}, %r202;"),
    "setp-selp": ("r", "setp.lt.u32 %p1, {v}, {w}; selp.u32 {v}, {w}, %r202, %p1;"),
    "add.u64": ("l", "add.u64 {v}, {v}, %l100; xor.b64 {v}, {v}, 0x5555;"),
    "mul.lo.u64": ("l", "mul.lo.u64 {v}, {v}, %l100;"),
    "div.u32": ("r", "div.u32 {v}, %r200, {v}; or.b32 {v}, {v}, 5;"),
    "rem.u32": ("r", "rem.u32 {v}, %r200, {v}; or.b32 {v}, {v}, 5;"),
    "div.u64": ("l", "div.u64 {v}, %l100, {v}; or.b64 {v}, {v}, 5;"),
    "cvt.f32.s32": ("r", "cvt.rn.f32.s32 %f100, {v}; cvt.rzi.s32.f32 {v}, %f100;"),
    "cvt.f16.f32": ("f", "cvt.rn.f16.f32 %h1, {v}; cvt.f32.f16 {v}, %h1;"),
    "cvt.f64.f32": ("f", "cvt.f64.f32 %d10, {v}; cvt.rn.f32.f64 {v}, %d10;"),
    "shfl.bfly": ("r", "shfl.sync.bfly.b32 {v}, {v}, 5, 31, 0xffffffff;"),
    "vote.ballot": ("r", "setp.lt.u32 %p1, {v}, %r202; vote.sync.ballot.b32 {v}, %p1, 0xffffffff;"),
    "redux.add": ("r", "redux.sync.add.u32 {v}, {v}, 0xffffffff;"),
    "match.any": ("r", "match.any.sync.b32 {v}, {v}, 0xffffffff;"),
}
_SLOW: Final = {"match.any", "div.u64", "div.rn.f64", "sqrt.rn.f64", "redux.add"}
_INITIAL: Final = {
    "f": "  add.f32 {v}, %f200, 0f3E000000;\n",
    "d": "  add.f64 {v}, %d50, %d51;\n",
    "r": "  add.u32 {v}, %r202, {i};\n",
    "l": "  add.u64 {v}, %l100, {i};\n",
}
_COLLECT: Final = {
    "f": "  mov.b32 %r210, {v}; xor.b32 %r211, %r211, %r210;\n",
    "d": "  mov.b64 %l110, {v}; cvt.u32.u64 %r210, %l110; xor.b32 %r211, %r211, %r210;\n",
    "r": "  xor.b32 %r211, %r211, {v};\n",
    "l": "  cvt.u32.u64 %r210, {v}; xor.b32 %r211, %r211, %r210;\n",
}


def timed_loop(prologue: str, body: str, epilogue: str, iterations: int = _ITERATIONS) -> str:
    """Return a kernel's body that repeats ``body``. The first thread stores the loop's cycles."""
    return f"""{pointers(0)}{_START}{prologue}  mov.u32 %r250, {iterations};
  mov.u64 %l90, %clock64;
L:
{body}  sub.u32 %r250, %r250, 1; setp.ne.u32 %p0, %r250, 0; @%p0 bra L;
  mov.u64 %l91, %clock64;
  mov.u32 %r211, 0;
{epilogue}  setp.eq.u32 %p2, %r211, 0x12345679;
  @%p2 st.global.u32 [%l0+64], %r211;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; or.b32 %r0, %r0, %r1; setp.ne.u32 %p3, %r0, 0;
  @%p3 bra END;
  sub.u64 %l91, %l91, %l90; st.global.u64 [%l0], %l91;
END:"""


ARGUMENTS: Final = (("buffer", "zeros", 4096), ("u32", 5), ("f32", 0.999), ("f32", 0.4))
PARAMETERS: Final = ("u64", "u32", "f32", "f32")


def _chain(name: str, chains: int, iterations: int) -> str:
    kind, code = _OPS[name]
    width = {"f": 32, "r": 32, "d": 64, "l": 64}[kind]
    prologue = epilogue = ""
    each = []
    for i in range(chains):
        v = f"%{kind}{i}" if kind != "r" else f"%r{10 + i}"
        if kind == "l":
            v = f"%l{10 + i}"
        w = f"%r{50 + i}"
        prologue += _INITIAL[kind].format(v=v, i=i) + f"  add.u32 {w}, %r201, {2 * i};\n"
        epilogue += _COLLECT[kind].format(v=v) + f"  xor.b32 %r211, %r211, {w};\n"
        each.append("  " + code.format(v=v, w=w) + "\n")
    assert width
    body = "".join(each) * (_UNROLLED // chains)
    return entry("chain", PARAMETERS, timed_loop(prologue, body, epilogue, iterations))


def points() -> list[Point]:
    """Return the latency and the throughput of each instruction."""
    kernels = []
    for name, (_, code) in _OPS.items():
        iterations = 16 if name in _SLOW else 128
        instructions = iterations * _UNROLLED * code.count(";")
        kernels.append(
            Point(
                f"latency {name}",
                "latency of an instruction",
                _chain(name, 1, iterations),
                "chain",
                (1, 1, 1),
                (32, 1, 1),
                ARGUMENTS,
                cycles=instructions,
            )
        )
        iterations = 8 if name in _SLOW else 48
        kernels.append(
            Point(
                f"throughput {name}",
                "throughput of an instruction",
                _chain(name, _CHAINS, iterations),
                "chain",
                (_SMS, 1, 1),
                (1024, 1, 1),
                ARGUMENTS,
                cycles=iterations * _UNROLLED * code.count(";"),
            )
        )
    return kernels
