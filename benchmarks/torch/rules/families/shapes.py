"""Views and movements: elements keep all their bits, and only places change."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, Array
from benchmarks.torch.rules.exact import MOVED, make_moves
from benchmarks.torch.rules.row import Row
from benchmarks.torch.rules.sources import cite_page, cuda, native, page

_SHAPE = "TensorShape.cpp"
_CUBE = ((2, 3, 4),)
_SQUARE = ((3, 3),)
_MATRIX = ((3, 4),)
_TWO = ((3, 4), (3, 4))


def _row(
    name: str,
    call: str,
    function: Callable[..., Array | Sequence[Array]],
    shapes: Sequence[Sequence[int]] = _CUBE,
    source: str = "",
    rule: str = "elements are unchanged, in all bits",
    accepts: tuple[str, ...] = MOVED,
) -> Row:
    source = source or native(_SHAPE, name.removeprefix("nn.functional."))
    return Row(name, "shapes", rule, source, accepts, make_moves(call, function, shapes), call)


def _split(values: Array, sizes: Sequence[int], axis: int) -> list[Array]:
    return np.split(values, np.cumsum(sizes)[:-1].tolist(), axis)


def _as_strided(values: Array) -> Array:
    return values.ravel()[[[1, 4, 7], [3, 6, 9]]]


def _unfold(values: Array) -> Array:
    return np.stack([values[:, :, 0:2], values[:, :, 2:4]], axis=2)


def _block_diag(first: Array, second: Array) -> Array:
    matrix = np.zeros((6, 8), dtype=first.dtype)
    matrix[:3, :4], matrix[3:, 4:] = first, second
    return matrix


def _diag_embed(values: Array) -> Array:
    diagonals = np.zeros((*values.shape, values.shape[-1]), dtype=values.dtype)
    for index in np.ndindex(*values.shape):
        diagonals[(*index, index[-1])] = values[index]
    return diagonals


def _pad(values: Array) -> Array:
    return np.pad(values, ((0, 0), (0, 0), (1, 2)), constant_values=1)


def _pixels(values: Array) -> Array:
    return values.reshape(1, 1, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 4, 6)


_TRIANGLE = cuda("TriangularOps.cu", "triu_tril_kernel")

ROWS = (
    _row("H", "a.H", lambda a: a.T, _MATRIX, cite_page("Tensor.H")),
    _row("T", "a.T", lambda a: a.T, _MATRIX, cite_page("Tensor.T")),
    _row("mT", "a.mT", lambda a: a.swapaxes(-1, -2), _CUBE, cite_page("Tensor.mT")),
    _row("t", "a.t()", lambda a: a.T, _MATRIX, cite_page("t")),
    _row("transpose", "a.transpose(0, 2)", lambda a: a.swapaxes(0, 2)),
    _row("permute", "a.permute(2, 0, 1)", lambda a: a.transpose(2, 0, 1)),
    _row("movedim", "torch.movedim(a, 0, 2)", lambda a: np.moveaxis(a, 0, 2)),
    _row("swapaxes", "torch.swapaxes(a, 0, 1)", lambda a: a.swapaxes(0, 1)),
    _row("reshape", "a.reshape(4, 6)", lambda a: a.reshape(4, 6)),
    _row("reshape_as", "a.reshape_as(b)", lambda a, b: a.reshape(b.shape), ((2, 3, 4), (4, 6))),
    _row("view", "a.view(6, 4)", lambda a: a.reshape(6, 4), source=cite_page("Tensor.view")),
    _row("view_as", "a.view_as(b)", lambda a, b: a.reshape(b.shape), ((2, 3, 4), (4, 6)),
         cite_page("Tensor.view_as")),
    _row("flatten", "torch.flatten(a, 1)", lambda a: a.reshape(2, 12), source=cite_page("flatten")),
    _row("ravel", "torch.ravel(a)", lambda a: a.ravel(), source=cite_page("ravel")),
    _row("squeeze", "a[None].squeeze(0)", lambda a: a, source=cite_page("squeeze")),
    _row("unsqueeze", "a.unsqueeze(1)", lambda a: a[:, None], source=cite_page("unsqueeze")),
    _row("expand", "a[:, None].expand(2, 5, 3, 4)",
         lambda a: np.broadcast_to(a[:, None], (2, 5, 3, 4))),
    _row("expand_as", "a.expand_as(b)", lambda a, b: np.broadcast_to(a, b.shape), ((4,), (3, 4))),
    _row("broadcast_to", "torch.broadcast_to(a, (2, 3, 4))",
         lambda a: np.broadcast_to(a, (2, 3, 4)), ((3, 4),), cite_page("broadcast_to")),
    _row("broadcast_tensors", "torch.broadcast_tensors(a, b)",
         lambda a, b: list(np.broadcast_arrays(a, b)), ((3, 1), (4,)),
         cite_page("broadcast_tensors")),
    _row("as_strided", "torch.as_strided(a, (2, 3), (2, 3), 1)", _as_strided,
         source=native(_SHAPE, "as_strided_tensorimpl")),
    _row("select", "a.select(1, -1)", lambda a: a[:, -1]),
    _row("narrow", "torch.narrow(a, 2, 1, 2)", lambda a: a[:, :, 1:3]),
    _row("slice", "a[:, 1:, ::2]", lambda a: a[:, 1:, ::2]),
    _row("__getitem__", "a[1, ..., 2]", lambda a: a[1, ..., 2], source=native(_SHAPE, "select")),
    _row("split", "torch.split(a, 3, 2)", lambda a: _split(a, (3, 1), 2)),
    _row("split_with_sizes", "torch.split_with_sizes(a, [1, 0, 3], 2)",
         lambda a: _split(a, (1, 0, 3), 2)),
    _row("chunk", "torch.chunk(a, 3, 2)", lambda a: _split(a, (2, 2), 2)),
    _row("tensor_split", "torch.tensor_split(a, 3, 2)", lambda a: np.array_split(a, 3, 2)),
    _row("unbind", "torch.unbind(a, 1)", lambda a: [a[:, i] for i in range(3)],
         source=cite_page("unbind")),
    _row("diagonal", "torch.diagonal(a, 1, 1, 2)", lambda a: a.diagonal(1, 1, 2)),
    _row("diag", "torch.diag(a, -1)", lambda a: np.diag(a, -1), _SQUARE),
    _row("diag_embed", "torch.diag_embed(a)", _diag_embed),
    _row("diagflat", "torch.diagflat(a)", np.diagflat, ((5,),)),
    _row("tril", "torch.tril(a, 1)", lambda a: np.where(np.tri(3, 4, 1), a, np.zeros_like(a)),
         source=_TRIANGLE, rule="elements above the diagonal are zeros, also where they were NaN"),
    _row("triu", "torch.triu(a, 1)", lambda a: np.where(np.tri(3, 4), np.zeros_like(a), a),
         source=_TRIANGLE, rule="elements below the diagonal are zeros, also where they were NaN"),
    _row("cat", "torch.cat((a, b), 1)", lambda a, b: np.concatenate((a, b), 1), _TWO,
         cite_page("cat")),
    _row("stack", "torch.stack((a, b), 1)", lambda a, b: np.stack((a, b), 1), _TWO),
    _row("hstack", "torch.hstack((a, b))", lambda a, b: np.hstack((a, b)), _TWO),
    _row("vstack", "torch.vstack((a, b))", lambda a, b: np.vstack((a, b)), _TWO),
    _row("dstack", "torch.dstack((a, b))", lambda a, b: np.dstack((a, b)), _TWO),
    _row("column_stack", "torch.column_stack((a, b))", lambda a, b: np.column_stack((a, b)),
         ((3,), (3,))),
    _row("block_diag", "torch.block_diag(a, b)", _block_diag, _TWO, cite_page("block_diag")),
    _row("repeat", "a.repeat(2, 1, 3)", lambda a: np.tile(a, (2, 1, 3))),
    _row("tile", "torch.tile(a, (2, 3))", lambda a: np.tile(a, (2, 3))),
    _row("repeat_interleave", "torch.repeat_interleave(a, 2, 1)", lambda a: a.repeat(2, 1),
         source=cite_page("repeat_interleave")),
    _row("flip", "torch.flip(a, (0, 2))", lambda a: np.flip(a, (0, 2)),
         source=cuda("IndexKernel.cu", "flip_kernel_impl")),
    _row("roll", "torch.roll(a, (1, -2), (0, 2))", lambda a: np.roll(a, (1, -2), (0, 2)),
         source=cite_page("roll")),
    _row("rot90", "torch.rot90(a, 1, (1, 2))", lambda a: np.rot90(a, 1, (1, 2)),
         source=cite_page("rot90")),
    _row("unfold", "a.unfold(2, 2, 2)", _unfold, source=cite_page("Tensor.unfold")),
    _row("meshgrid", "torch.meshgrid(a, b, indexing='ij')",
         lambda a, b: list(np.meshgrid(a, b, indexing="ij")), ((3,), (4,)), cite_page("meshgrid")),
    _row("atleast_1d", "torch.atleast_1d(a)", np.atleast_1d, ((),), cite_page("atleast_1d")),
    _row("atleast_2d", "torch.atleast_2d(a)", np.atleast_2d, ((4,),), cite_page("atleast_2d")),
    _row("atleast_3d", "torch.atleast_3d(a)", np.atleast_3d, ((3, 4),), cite_page("atleast_3d")),
    _row("clone", "a.clone()", lambda a: a, source=cite_page("clone")),
    _row("contiguous", "a.transpose(0, 2).contiguous()", lambda a: a.swapaxes(0, 2),
         source=cite_page("Tensor.contiguous")),
    _row("constant_pad_nd", "F.pad(a, (1, 2), value=1)", _pad,
         source=page("generated/torch.nn.functional.pad.html"), rule="new elements are the value, in the type"),
    _row("nn.functional.pad", "F.pad(a, (1, 2), mode='reflect')",
         lambda a: np.pad(a, ((0, 0), (0, 0), (1, 2)), mode="reflect"),
         source=page("generated/torch.nn.functional.pad.html"), accepts=FLOATS),
    _row("nn.functional.pixel_shuffle", "F.pixel_shuffle(a, 2)", _pixels, ((1, 4, 2, 3),),
         page("generated/torch.nn.PixelShuffle.html")),
    _row("take", "torch.take(a, torch.tensor([0, -1, 5], device=DEVICE))",
         lambda a: a.ravel()[[0, -1, 5]], source=cuda("IndexKernel.cu", "take_kernel"),
         rule="negative indices count from the end"),
    _row("unflatten", "torch.unflatten(a, 2, (2, 2))", lambda a: a.reshape(2, 3, 2, 2),
         source=cite_page("unflatten")),
)  # fmt: skip
