"""Triton kernels of convolutions: matrix products of gathered operands (implicit GEMM)."""

import triton
import triton.language as tl


@triton.jit
def _place(position, tap, a, b, c, divisor, size):
    """Return an index along one dimension, and whether it is inside the tensor."""
    number = position * a + tap * b + c
    index = number // divisor
    return index, (number >= 0) & (number % divisor == 0) & (index < size)


@triton.jit
def gather_product(
    x, w, out, rows, inner, outer,
    od, oh, ow, kd, kh, kw, xd, xh, xw,
    a0, a1, a2, b0, b1, b2, c0, c1, c2, v0, v1, v2,
    xn, xc, x0, x1, x2, wg, wo, wi, w0, w1, w2, on, oc, o0, o1, o2,
    accumulator: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Each result element is a sum over channels and taps of x at ``position*a + tap*b + c``."""
    group = tl.program_id(2)
    m = tl.program_id(0) * block + tl.arange(0, block)
    n = tl.program_id(1) * block + tl.arange(0, block)
    p2 = m % ow
    p1 = m // ow % oh
    p0 = m // (ow * oh) % od
    image = m // (ow * oh * od)
    taps = kd * kh * kw
    depth = inner * taps
    total = tl.zeros((block, block), accumulator)
    images = x + image.to(tl.int64) * xn + group.to(tl.int64) * inner * xc
    for start in range(0, depth, block):
        k = start + tl.arange(0, block)
        t2 = k % kw
        t1 = k // kw % kh
        t0 = k // (kw * kh) % kd
        channel = k // taps
        i0, in0 = _place(p0[:, None], t0[None, :], a0, b0, c0, v0, xd)
        i1, in1 = _place(p1[:, None], t1[None, :], a1, b1, c1, v1, xh)
        i2, in2 = _place(p2[:, None], t2[None, :], a2, b2, c2, v2, xw)
        valid = in0 & in1 & in2 & (m[:, None] < rows) & (k[None, :] < depth)
        source = images[:, None] + channel[None, :] * xc + i0 * x0 + i1 * x1 + i2 * x2
        x_tile = tl.load(source, mask=valid, other=0)
        weights = group * wg + channel * wi + t0 * w0 + t1 * w1 + t2 * w2
        inside = (k[:, None] < depth) & (n[None, :] < outer)
        w_tile = tl.load(w + weights[:, None] + n[None, :] * wo, mask=inside, other=0)
        total = tl.dot(x_tile, w_tile, total, input_precision="ieee", out_dtype=accumulator)
    place = image.to(tl.int64) * on + p0 * o0 + p1 * o1 + p2 * o2
    target = out + place[:, None] + (group * outer + n)[None, :] * oc
    inside = (m[:, None] < rows) & (n[None, :] < outer)
    tl.store(target, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def weight_product(
    g, x, out, positions, outer, inner,
    od, oh, ow, kd, kh, kw, xd, xh, xw,
    a0, a1, a2, b0, b1, b2, c0, c1, c2,
    gn, gc, g0, g1, g2, xn, xc, x0, x1, x2,
    accumulator: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The weights' gradient: a sum over images and positions, for a row-major result."""
    group = tl.program_id(2)
    m = tl.program_id(0) * block + tl.arange(0, block)
    n = tl.program_id(1) * block + tl.arange(0, block)
    taps = kd * kh * kw
    columns = inner * taps
    t2 = n % kw
    t1 = n // kw % kh
    t0 = n // (kw * kh) % kd
    channel = group * inner + n // taps
    total = tl.zeros((block, block), accumulator)
    for start in range(0, positions, block):
        k = start + tl.arange(0, block)
        p2 = k % ow
        p1 = k // ow % oh
        p0 = k // (ow * oh) % od
        image = (k // (ow * oh * od)).to(tl.int64)
        source = image * gn + p0 * g0 + p1 * g1 + p2 * g2
        inside = (m[:, None] < outer) & (k[None, :] < positions)
        g_tile = tl.load(
            g + source[None, :] + (group * outer + m)[:, None] * gc, mask=inside, other=0
        )
        i0, in0 = _place(p0[:, None], t0[None, :], a0, b0, c0, 1, xd)
        i1, in1 = _place(p1[:, None], t1[None, :], a1, b1, c1, 1, xh)
        i2, in2 = _place(p2[:, None], t2[None, :], a2, b2, c2, 1, xw)
        valid = in0 & in1 & in2 & (k[:, None] < positions) & (n[None, :] < columns)
        place = image[:, None] * xn + channel[None, :] * xc + i0 * x0 + i1 * x1 + i2 * x2
        x_tile = tl.load(x + place, mask=valid, other=0)
        total = tl.dot(g_tile, x_tile, total, input_precision="ieee", out_dtype=accumulator)
    target = out + (group * outer + m)[:, None].to(tl.int64) * columns + n[None, :]
    inside = (m[:, None] < outer) & (n[None, :] < columns)
    tl.store(target, total.to(out.dtype.element_ty), mask=inside)
