"""PTX that chooses the levels of a mipmap, and combines what is read from two of them."""

from typing import Final

from vgpu_sim.compiler.lower.textures.layout import (
    BIAS,
    LEAST_LEVEL,
    LEVEL,
    LEVEL_BYTES,
    MAX_LEVELS,
    WIDTH,
)

REGISTERS: Final = """
  .reg .pred %second; .reg .b32 %lod, %delta, %acc<4>, %last;
"""

CHOOSE: Final = f"""
  and.b32 %last, %h3, 0xff; sub.u32 %last, %last, 1; setp.ge.u32 %p, %last, {MAX_LEVELS}; @%p trap;
  ld.global.b32 %f, [%handle+{BIAS}]; add.f32 %lod, %lod, %f;
  ld.global.b32 %f, [%handle+{LEAST_LEVEL}]; max.f32 %lod, %lod, %f;
  ld.global.b32 %f, [%handle+{LEAST_LEVEL + 4}]; min.f32 %lod, %lod, %f;
  cvt.rn.f32.u32 %f, %last; max.f32 %lod, %lod, 0f00000000; min.f32 %lod, %lod, %f;
  and.b32 %k, %h2, 0xff; setp.ne.u32 %p, %k, 0; and.pred %p, %p, %floats; @%p bra BETWEEN;
  add.f32 %lod, %lod, 0f3F000000; cvt.rzi.u32.f32 %k, %lod; min.u32 %k, %k, %last;
  mov.b32 %delta, 0; bra CHOSEN;
BETWEEN:
  cvt.rmi.f32.f32 %f, %lod; sub.f32 %g, %lod, %f; cvt.rzi.u32.f32 %k, %f;
  mul.f32 %g, %g, 0f43800000; cvt.rni.f32.f32 %g, %g; mul.f32 %delta, %g, 0f3B800000;
CHOSEN:
  mad.wide.u32 %level, %k, {LEVEL_BYTES}, %handle; add.u64 %level, %level, {LEVEL};
  setp.ne.u32 %second, 0, 0;
"""
"""PTX that sets %level to the part of the descriptor for %lod, and %delta to the weight of the next
level, which is 0 without a linear filter between levels."""


def accumulate(stem: str, begin: str, again: str, weight: str, flag: str) -> str:
    """Return PTX that keeps the first of two results in %<stem><n>, continues at ``begin`` for the
    second, and then sums them up: the second one has the ``weight``. The predicate ``flag`` is
    true the second time; ``again`` is done before it.
    """
    label = stem.upper()
    lines = [f"@{flag} bra {label}SECOND; mov.b32 %u, 0f3F800000; sub.f32 %u, %u, {weight};"]
    lines += [f"mul.rn.f32 %{stem}{c}, %s{c}, %u;" for c in range(4)]
    lines += [f"{again} not.pred {flag}, {flag}; bra {begin};", f"{label}SECOND:"]
    lines += [
        f"mul.rn.f32 %s{c}, %s{c}, {weight}; add.rn.f32 %s{c}, %{stem}{c}, %s{c};" for c in range(4)
    ]
    return "\n".join(lines)


def of_gradients(components: int, *, cube: bool) -> str:
    """Return PTX that sets %lod from the gradients %dx<n> and %dy<n> of the coordinates: the
    logarithm of the longer one, in texels of level 0.
    """
    sizes = []
    for n in range(components):
        at = LEVEL + WIDTH + 4 * (0 if cube else n)
        sizes.append(
            f"ld.global.b32 %f, [%handle+{at}]; cvt.rn.f32.u32 %f, %f;"
            + (
                " mul.f32 %f, %f, 0f3F000000; div.rn.f32 %f, %f, %major;"
                if cube
                else " selp.b32 %f, %f, 0f3F800000, %normal;"
            )
            + f" mul.f32 %dx{n}, %dx{n}, %f; mul.f32 %dy{n}, %dy{n}, %f;"
        )
    lines = [*sizes]
    for axis in ("x", "y"):
        lines.append(f"mul.f32 %l{axis}, %d{axis}0, %d{axis}0;")
        lines += [
            f"fma.rn.f32 %l{axis}, %d{axis}{n}, %d{axis}{n}, %l{axis};"
            for n in range(1, components)
        ]
    return "\n".join(
        (*lines, "max.f32 %lx, %lx, %ly; lg2.approx.f32 %lx, %lx; mul.f32 %lod, %lx, 0f3F000000;")
    )
