"""Deterministic mode: sums in a fixed order, and PyTorch's errors and warnings of operators without
a deterministic kernel on a real GPU.

Sums of small integers take the same way, because no atomic operation adds them.
"""

import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.targets import write

_LINEAR: Final = ("linear1d", "bilinear2d", "trilinear3d")
# By the operators' names without overload: what PyTorch names in its message.
_ALWAYS: Final = {
    "put_": "put_",
    "nll_loss2d_forward": "nll_loss2d_forward_out_cuda_template",
    "_ctc_loss_backward": "ctc_loss_backward_gpu",
    "avg_pool3d_backward": "avg_pool3d_backward_cuda",
    "max_pool3d_with_indices_backward": "max_pool3d_with_indices_backward_cuda",
    "adaptive_max_pool2d_backward": "adaptive_max_pool2d_backward_cuda",
    "upsample_bicubic2d_backward": "upsample_bicubic2d_backward_out_cuda",
    "reflection_pad1d_backward": "reflection_pad1d_backward_out_cuda",
    "reflection_pad3d_backward": "reflection_pad3d_backward_out_cuda",
    **{f"_adaptive_avg_pool{n}d_backward": f"adaptive_avg_pool{n}d_backward_cuda" for n in (2, 3)},
    "adaptive_avg_pool3d_backward": "adaptive_avg_pool3d_backward_cuda",
    "fractional_max_pool2d_backward": "fractional_max_pool2d_backward_cuda",
    "fractional_max_pool3d_backward": "fractional_max_pool3d_backward_cuda",
    **{f"max_unpool{n}d": f"max_unpooling{n}d_forward_out" for n in (2, 3)},
    **{f"upsample_{one}_backward": f"upsample_{one}_backward_out_cuda" for one in _LINEAR},
    **{f"replication_pad{n}d_backward": f"replication_pad{n}d_backward_cuda" for n in (1, 2, 3)},
    **{f"grid_sampler_{n}d_backward": f"grid_sampler_{n}d_backward_cuda" for n in (2, 3)},
}  # fmt: skip
_SCANS: Final = {"cumsum": torch.add, "cumprod": torch.mul}
_SCANNED: Final = 1024  # elements that one block of threads scans in any mode
_MAXIMUM: Final = 2  # a mode of bags
_SMALL: Final = (torch.bool, torch.int8, torch.uint8, torch.int16)  # Triton adds none atomically


def _of_histogram(values: dict[str, Any]) -> str | None:
    return "_histc_cuda with floating point input" if values["self"].is_floating_point() else None


def _of_counts(values: dict[str, Any]) -> str | None:
    return "_bincount_cuda" if values.get("weights") is not None else None


def _of_median(values: dict[str, Any]) -> str | None:
    return "median CUDA with indices output" if "dim" in values else None


def _of_bags(values: dict[str, Any]) -> str | None:
    return "embedding_bag_backward_cuda_max" if values.get("mode") == _MAXIMUM else None


_SOMETIMES: Final[dict[str, Callable[[dict[str, Any]], str | None]]] = {
    "histc": _of_histogram,
    "bincount": _of_counts,
    "median": _of_median,
    "nanmedian": _of_median,
    "_embedding_bag_dense_backward": _of_bags,
    "_embedding_bag_backward": _of_bags,
}


def _alert(name: str) -> None:
    """Raise RuntimeError, or warn if the program wants that."""
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(
            f"{name} does not have a deterministic implementation, but you set"
            " 'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at"
            " https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic"
            " support for this operation.",
            stacklevel=3,
        )
        return
    raise RuntimeError(
        f"{name} does not have a deterministic implementation, but you set"
        " 'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this"
        " operation, or you can use the 'warn_only=True' option, if that's acceptable for your"
        " application. You can also file an issue at https://github.com/pytorch/pytorch/issues to"
        " help us prioritize adding deterministic support for this operation."
    )


def with_alerts(name: str, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that raises in deterministic mode what PyTorch's own raises."""
    short = name.partition(".")[0]
    always, sometimes = _ALWAYS.get(short), _SOMETIMES.get(short)
    if always is None and sometimes is None:
        return compute
    names = tuple(argument.name for argument in overload._schema.arguments)

    def compute_with_alert(*arguments: Any, **keywords: Any) -> Any:
        if torch.are_deterministic_algorithms_enabled():
            alert = always
            if sometimes is not None:
                alert = sometimes({**dict(zip(names, arguments, strict=False)), **keywords})
            if alert is not None:
                _alert(alert)
        return compute(*arguments, **keywords)

    return compute_with_alert


def _length(tensor: Any, dim: int) -> int:
    """Return a tensor's size along a dimension; that of a number is 1."""
    return int(tensor.shape[dim]) if tensor.dim() else 1


def _answer(name: str, result: Any, out: Any = None) -> Any:
    """Return a result, or the out= tensor after the result is copied into it."""
    if out is None:
        return result
    write(name, out, result)
    return out


def with_order(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that adds in a fixed order in deterministic mode, as PyTorch's own does.

    Of the operators that Inductor compiles, long scans combine the sums of blocks as these come to
    be known, and ``index_add`` adds by atomic operations, which Triton lacks for small integers:
    these are added by ``index_put`` in any mode.
    """
    short = name.partition(".")[0].removesuffix("_")
    if short in _SCANS:
        return _scan_in_order(name, _SCANS[short], compute)
    if short != "index_add":
        return compute

    def compute_in_order(
        self: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1, **out: Any
    ) -> Any:
        rank = max(self.dim(), 1)
        is_valid = -rank <= dim < rank and index.numel() == _length(source, dim)
        is_ordered = (
            self.is_floating_point() or self.is_complex()
        ) and torch.are_deterministic_algorithms_enabled()
        if not is_valid or not (is_ordered or self.dtype in _SMALL):
            return compute(self, dim, index, source, alpha=alpha, **out)
        result = self if name == "index_add_" else self.clone()
        places = (*(None,) * (dim % rank), index.reshape(-1))
        added = source if alpha == 1 else source * alpha
        view, added = (tensor.view(1) if not tensor.dim() else tensor for tensor in (result, added))
        torch.ops.aten.index_put_.default(view, places, added, True)
        return _answer(name, result, **out)

    return compute_in_order


def _scan_in_order(
    name: str, combine: Callable[[Any, Any], Any], compute: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a scan that in deterministic mode scans blocks, and then what they end with."""
    scan = getattr(torch, name.partition(".")[0].removesuffix("_"))

    def compute_in_order(self: Any, dim: int, *, dtype: Any = None, **out: Any) -> Any:
        kind = dtype or self.dtype
        is_long = self.dim() and -self.dim() <= dim < self.dim() and self.shape[dim] > _SCANNED
        is_exact = not (kind.is_floating_point or kind.is_complex)
        if is_exact or not is_long or not torch.are_deterministic_algorithms_enabled():
            return compute(self, dim, dtype=dtype, **out)
        dim %= self.dim()
        blocks = self.shape[dim] // _SCANNED
        whole = blocks * _SCANNED
        head = self.narrow(dim, 0, whole).to(kind).unflatten(dim, (blocks, _SCANNED))
        head = scan(head, dim + 1)
        ends = scan(head.select(dim + 1, -1), dim)
        later = combine(
            head.narrow(dim, 1, blocks - 1), ends.narrow(dim, 0, blocks - 1).unsqueeze(dim + 1)
        )
        tail = scan(self.narrow(dim, whole, self.shape[dim] - whole).to(kind), dim)
        parts = (head.select(dim, 0), later.flatten(dim, dim + 1))
        result = torch.cat((*parts, combine(tail, ends.narrow(dim, blocks - 1, 1))), dim)
        if name.endswith("_"):
            return self.copy_(result)
        return _answer(name, result, **out)

    return compute_in_order
