"""Convolutions, pooling, sampling and attention, on operands for which every sum is exact."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, Array, cast
from benchmarks.torch.rules.exact import make_moves, make_small, results, small
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cuda, native, page

Make = Callable[[Row, str], Iterator[Case]]
_EXACT = "sums of whole numbers are exact in float32 and rounded once"


def _windows(values: Array, sizes: Sequence[int]) -> Array:
    axes = tuple(range(2, 2 + len(sizes)))
    return np.lib.stride_tricks.sliding_window_view(values, tuple(sizes), axis=axes)


def _convolved_volume(volumes: Array, weights: Array) -> Array:
    windows = _windows(volumes, weights.shape[2:])
    return np.asarray(np.einsum("ncdhwijk,ocijk->nodhw", windows, weights))


def _convolved_back(images: Array, weights: Array) -> Array:
    """Add each element's product with the weights at a distance of two elements."""
    count, _, height, width = images.shape
    _, channels, rows, columns = weights.shape
    added = np.zeros((count, channels, 2 * (height - 1) + rows, 2 * (width - 1) + columns))
    for row, column in np.ndindex(height, width):
        part = np.einsum("nc,coij->noij", images[:, :, row, column], weights)
        added[:, :, 2 * row : 2 * row + rows, 2 * column : 2 * column + columns] += part
    return added


def _columns(images: Array) -> Array:
    windows = _windows(images, (2, 2))
    moved = windows.transpose(0, 1, 4, 5, 2, 3)
    return moved.reshape(len(images), 4 * images.shape[1], -1)


def _means(values: Array) -> Array:
    return np.stack((values[:, :, 0:3].sum(2) / 3, values[:, :, 2:5].sum(2) / 3), axis=2)


def _doubled(values: Array) -> Array:
    return values.repeat(2, axis=2).repeat(2, axis=3)


def _interpolated(values: Array) -> Array:
    for axis in (2, 3):
        size = values.shape[axis]
        places = np.maximum((np.arange(2 * size) + 0.5) / 2 - 0.5, 0)
        low = np.floor(places).astype("int64")
        shape = [1] * 4
        shape[axis] = -1
        weight = (places - low).reshape(shape)
        near = np.take(values, low, axis)
        far = np.take(values, np.minimum(low + 1, size - 1), axis)
        values = near * (1 - weight) + far * weight
    return values


def _sampled(row: Row, dtype: str) -> Iterator[Case]:
    """Yield samples at elements, between two and four, and half an element outside."""
    image = small(dtype, (1, 2, 3, 3))
    ends = np.array([-1.5, -1, -0.5, 0, 0.5, 1, 1.5])
    grid = np.stack(np.meshgrid(ends, ends), axis=-1)[None]
    framed = np.pad(image.astype("float64"), ((0, 0), (0, 0), (2, 2), (2, 2)))
    places = grid[0] + 1 + 2  # an element's place in the frame, by align_corners
    low = np.floor(places).astype("int64")
    part = places - low
    sampled = np.zeros((1, 2, *grid.shape[1:3]))
    for right, below in np.ndindex(2, 2):
        columns, rows = low[..., 0] + right, low[..., 1] + below
        width = part[..., 0] if right else 1 - part[..., 0]
        height = part[..., 1] if below else 1 - part[..., 1]
        sampled += framed[:, :, rows, columns] * width * height
    operands = Operand(image, dtype), Operand(cast(grid, dtype), dtype)
    expected = results(cast(sampled, dtype), dtype, zero_sign=False)
    yield Case("F.grid_sample(a, b, align_corners=True)", operands, expected, label=dtype)


def _bags(row: Row, dtype: str) -> Iterator[Case]:
    weights = small(dtype, (6, 4))
    indices, offsets = np.array([0, 2, 4, 5, 1]), np.array([0, 3, 3])
    wide = weights.astype("float64")
    bags = [wide[indices[:3]], wide[:0], wide[indices[3:]]]
    reductions: dict[str, Callable[[Array], Array]] = {
        "sum": lambda bag: bag.sum(0),
        "mean": lambda bag: bag.sum(0) / max(len(bag), 1),
        "max": lambda bag: bag.max(0, initial=-np.inf) if len(bag) else bag.sum(0),
    }
    operands = Operand(weights, dtype), Operand(indices, "int64"), Operand(offsets, "int64")
    for mode, reduce in reductions.items():
        exact = np.stack([reduce(bag) for bag in bags])
        expected = results(cast(exact, dtype), dtype, zero_sign=False)
        call = f"F.embedding_bag(b, a, c, mode='{mode}')"
        yield Case(call, operands, expected, label=f"{dtype} {mode}")


def _attention(row: Row, dtype: str) -> Iterator[Case]:
    """Yield equal scores, of which all, the first two, or those up to the diagonal count."""
    keys, values = small(dtype, (1, 2, 4, 8)), small(dtype, (1, 2, 4, 8), 5)
    queries = np.zeros_like(values)
    wide = values.astype("float64")
    operands = tuple(Operand(array, dtype) for array in (queries, keys, values))
    everywhere = np.broadcast_to(wide.mean(2, keepdims=True), wide.shape)
    call = "F.scaled_dot_product_attention(a, b, c)"
    expected = results(cast(everywhere, dtype), dtype, zero_sign=False)
    yield Case(call, operands, expected, label=dtype)
    mask = Operand(np.tile(np.arange(4) < 2, (4, 1)), "bool")
    first = np.broadcast_to(wide[:, :, :2].mean(2, keepdims=True), wide.shape)
    expected = results(cast(first, dtype), dtype, zero_sign=False)
    call = "F.scaled_dot_product_attention(a, b, c, attn_mask=d)"
    yield Case(call, (*operands, mask), expected, label=f"{dtype} mask")
    pair = tuple(Operand(array[:, :, :2].copy(), dtype) for array in (queries, keys, values))
    causal = np.stack((wide[:, :, 0], wide[:, :, :2].mean(2)), axis=2)
    expected = results(cast(causal, dtype), dtype, zero_sign=False)
    call = "F.scaled_dot_product_attention(a, b, c, is_causal=True)"
    yield Case(call, pair, expected, label=f"{dtype} causal")


def _heads(row: Row, dtype: str) -> Iterator[Case]:
    """Yield attention whose queries are projected to 0, and whose values stay as they are."""
    tokens = small(dtype, (4, 1, 8))
    into = cast(np.concatenate((np.zeros((8, 8)), np.eye(8), np.eye(8))), dtype)
    out = cast(2 * np.eye(8), dtype)
    mean = 2 * np.broadcast_to(tokens.astype("float64").mean(0, keepdims=True), tokens.shape)
    operands = Operand(tokens, dtype), Operand(into, dtype), Operand(out, dtype)
    call = (
        "F.multi_head_attention_forward(a, a, a, 8, 2, b, None, None, None, False, 0.0, c, None,"
        " need_weights={0})[0]"
    )
    for with_weights in (False, True):
        expected = results(cast(mean, dtype), dtype, zero_sign=False)
        label = f"{dtype} weights {with_weights}"
        yield Case(call.format(with_weights), operands, expected, label=label)


def _row(
    name: str, make: Make, rule: str, source: str = "", accepts: tuple[str, ...] = FLOATS
) -> Row:
    source = source or page(f"generated/torch.nn.functional.{name}.html")
    return Row(f"nn.functional.{name}", "layers", rule, source, accepts, make)


ROWS = (
    _row("conv3d", make_small("F.conv3d(a, b)", _convolved_volume,
         ((1, 2, 3, 4, 4), (3, 2, 2, 2, 3))), _EXACT),
    _row("conv_transpose2d", make_small("F.conv_transpose2d(a, b, stride=2)", _convolved_back,
         ((1, 2, 3, 2), (2, 3, 3, 2))), _EXACT),
    _row("adaptive_avg_pool1d", make_small("F.adaptive_avg_pool1d(a, 2)", _means, ((2, 3, 5),)),
         "each window's sum in float32, divided by its size and rounded once; windows overlap",
         cuda("AdaptiveAveragePooling.cu", "adaptive_average_pool")),
    _row("unfold", make_moves("F.unfold(a, 2)", _columns, ((2, 3, 4, 5),)),
         "elements are unchanged, in all bits", cuda("Im2Col.cu", "im2col_out_cuda_template")),
    _row("interpolate", make_moves("F.interpolate(a, scale_factor=2)", _doubled, ((1, 2, 3, 4),)),
         "nearest: elements are unchanged, in all bits",
         cuda("UpSampleNearest2d.cu", "upsample_nearest2d_out_frame"), (*FLOATS, "uint8")),
    _row("interpolate.bilinear", make_small(
         "F.interpolate(a, scale_factor=2, mode='bilinear')", _interpolated, ((1, 2, 3, 4),)),
         "of four elements in float32, rounded once",
         cuda("UpSampleBilinear2d.cu", "upsample_bilinear2d_out_frame")),
    _row("grid_sample", _sampled, "of four elements; those outside are 0; rounded once",
         cuda("GridSampler.cu", "grid_sampler_2d_kernel")),
    _row("embedding_bag", _bags, "sums and means in float32, rounded once; an empty bag is 0",
         cuda("EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_sum_mean and _max")),
    _row("scaled_dot_product_attention", _attention, "equal scores have equal weights, keys that the"
         " mask leaves out have none", native("transformers/attention.cpp",
         "_scaled_dot_product_attention_math")),
    _row("multi_head_attention_forward", _heads, "projections, attention and a last projection, each"
         " rounded once", "torch/nn/functional.py: multi_head_attention_forward"),
)  # fmt: skip
