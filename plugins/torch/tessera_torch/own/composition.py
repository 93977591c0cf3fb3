"""Operators that are short sequences of others."""

from typing import Any, Final

import torch

from tessera_torch import counts


def _equal(self: Any, other: Any) -> bool:
    counts.CALLS["equal"] += 1
    if self.shape != other.shape:
        return False
    return not self.numel() or bool((self == other).all().item())


def _assert_nonzero(
    self: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    counts.CALLS["_assert_async"] += 1
    if not bool(self):
        raise RuntimeError(assert_msg or "Assertion is failed")


def _bincount(self: Any, weights: Any = None, minlength: int = 0) -> Any:
    counts.CALLS["bincount"] += 1
    if self.dim() != 1 or self.is_floating_point():
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    size = minlength
    if self.numel():
        if int(self.min().item()) < 0:
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        size = max(size, int(self.max().item()) + 1)
    if weights is None:
        weights = torch.ones(self.shape, dtype=torch.int64, device=self.device)
    elif weights.dtype != torch.float32:
        weights = weights.to(torch.float64)
    result = torch.zeros(size, dtype=weights.dtype, device=self.device)
    return result.scatter_add_(0, self.to(torch.int64), weights)


def _lstm_cell(igates: Any, hgates: Any, cx: Any, ibias: Any = None, hbias: Any = None) -> Any:
    counts.CALLS["_thnn_fused_lstm_cell"] += 1
    gates = igates + hgates
    if ibias is not None:
        gates = gates + ibias + hbias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def _lstm_cell_backward(
    of_hy: Any, of_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool
) -> Any:
    counts.CALLS["_thnn_fused_lstm_cell_backward_impl"] += 1
    i, f, g, o = workspace.chunk(4, 1)
    tanh = cy.tanh()
    of_hy = torch.zeros_like(cx) if of_hy is None else of_hy
    of_o = of_hy * tanh
    of_c = of_hy * o * (1 - tanh * tanh)
    if of_cy is not None:
        of_c = of_c + of_cy
    parts = (
        of_c * g * i * (1 - i),
        of_c * cx * f * (1 - f),
        of_c * i * (1 - g * g),
        of_o * o * (1 - o),
    )
    gates = torch.cat(parts, 1)
    return gates, of_c * f, gates.sum(0) if has_bias else None


def _gru_cell(igates: Any, hgates: Any, hx: Any, ibias: Any = None, hbias: Any = None) -> Any:
    counts.CALLS["_thnn_fused_gru_cell"] += 1
    if ibias is not None:
        igates, hgates = igates + ibias, hgates + hbias
    ir, iz, in_ = igates.chunk(3, 1)
    hr, hz, hn = hgates.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (in_ + r * hn).tanh()
    return n + z * (hx - n), torch.cat((r, z, n, hx, hn), 1)


def _gru_cell_backward(of_hy: Any, workspace: Any, has_bias: bool) -> Any:
    counts.CALLS["_thnn_fused_gru_cell_backward"] += 1
    r, z, n, hx, hn = workspace.chunk(5, 1)
    of_z = of_hy * (hx - n) * (1 - z) * z
    of_in = of_hy * (1 - z) * (1 - n * n)
    of_r = of_in * hn * (1 - r) * r
    igates = torch.cat((of_r, of_z, of_in), 1)
    hgates = torch.cat((of_r, of_z, of_in * r), 1)
    biases = (igates.sum(0), hgates.sum(0)) if has_bias else (None, None)
    return igates, hgates, of_hy * z, *biases


def _cdist(x1: Any, x2: Any, p: float, compute_mode: int | None = None) -> Any:
    counts.CALLS["_cdist_forward"] += 1
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if not difference.shape[-1]:  # of which there is no largest element
        return difference.new_zeros(difference.shape[:-1])
    return torch.linalg.vector_norm(difference, p, -1)


def slope_of_norm(difference: Any, lengths: Any, p: float) -> Any:
    """Return the derivative of vectors' p-norms, which are ``lengths``; ``p`` is not 0."""
    if p == 1:
        return difference.sign()
    if p == float("inf"):
        return difference.sign() * (difference.abs() == lengths)
    slope = difference * difference.abs().pow(p - 2) / lengths.pow(p - 1)
    return torch.where((lengths == 0) | (difference == 0), 0, slope)


def _cdist_backward(gradient: Any, x1: Any, x2: Any, p: float, distances: Any) -> Any:
    counts.CALLS["_cdist_backward"] += 1
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 0:
        return torch.zeros_like(x1)
    slope = slope_of_norm(difference, distances.unsqueeze(-1), p)
    return (gradient.unsqueeze(-1) * slope).sum(-2)


def _addbmm(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    counts.CALLS["addbmm"] += 1
    dtype = batch1.dtype
    if dtype in (torch.float16, torch.bfloat16):  # the sum over the batch keeps its digits
        batch1, batch2 = batch1.to(torch.float32), batch2.to(torch.float32)
    product = torch.bmm(batch1, batch2).sum(0) * alpha
    return (product + self * beta if beta else product).to(dtype)


def _addbmm_in_place(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return self.copy_(_addbmm(self, batch1, batch2, beta=beta, alpha=alpha))


def _addbmm_out(
    self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any
) -> Any:
    result = _addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    return out.resize_(result.shape).copy_(result)


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:  # fmt: skip
    counts.CALLS["_native_batch_norm_legit"] += 1
    return torch.ops.aten.native_batch_norm(x, weight, bias, mean, var, training, momentum, eps)


def _batch_norm_with_update(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    result = _batch_norm(x, weight, bias, mean, var, True, momentum, eps)
    return *result, torch.empty(0, dtype=torch.uint8, device=x.device)


def _get_statistics(x: Any, eps: float) -> Any:
    counts.CALLS["batch_norm_stats"] += 1
    dims = [dim for dim in range(x.dim()) if dim != 1]
    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    var, mean = torch.var_mean(wide, dims, correction=0)
    return mean, torch.rsqrt(var + eps)


def _gather_statistics_of_counts(
    x: Any, mean: Any, invstd: Any, running_mean: Any, running_var: Any,
    momentum: float, eps: float, sizes: Any,
) -> Any:  # fmt: skip
    """Join means and deviations of several processes, each of its own count of elements."""
    counts.CALLS["batch_norm_gather_stats"] += 1
    weights = sizes.to(mean.dtype).reshape(-1, 1)
    total = weights.sum()
    joint = (mean * weights).sum(0) / total
    square = (weights * (invstd**-2 - eps + (mean - joint) ** 2)).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(joint * momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(square / (total - 1) * momentum)
    return joint, torch.rsqrt(square / total + eps)


def _gather_statistics(
    x: Any, mean: Any, invstd: Any, running_mean: Any, running_var: Any,
    momentum: float, eps: float, count: int,
) -> Any:  # fmt: skip
    each = torch.full((mean.shape[0],), count, dtype=mean.dtype, device=mean.device)
    return _gather_statistics_of_counts(
        x, mean, invstd, running_mean, running_var, momentum, eps, each
    )


def _expand_mask(mask: Any, shape: Any, mask_type: int | None) -> Any:
    """Return a mask of attention with the scores' shape: 0 is of positions, 1 of padding."""
    if mask.dtype != torch.bool:
        raise RuntimeError("Mask should be a boolean tensor")
    if mask_type is None:
        raise RuntimeError("Mask Type should be defined")
    if mask.shape == shape:
        return mask
    if mask_type not in (0, 1) or len(shape) != 4 or mask.dim() != 2:
        raise RuntimeError(
            f"Mask shape should match input. mask: {list(mask.shape)} input: {list(shape)}"
        )
    return (mask if mask_type == 0 else mask[:, None, None]).expand(shape)


def _masked_softmax(
    self: Any, mask: Any, dim: int | None = None, mask_type: int | None = None
) -> Any:
    counts.CALLS["_masked_softmax"] += 1
    hidden = _expand_mask(mask, self.shape, mask_type)
    return self.masked_fill(hidden, -torch.inf).softmax(-1 if dim is None else dim)


def _masked_softmax_backward(gradient: Any, result: Any, mask: Any, dim: int | None = None) -> Any:
    counts.CALLS["_masked_softmax_backward"] += 1
    if mask.shape != gradient.shape:
        raise RuntimeError("Mask shape should match grad shape")
    product = gradient * result
    total = product.sum(-1 if dim is None else dim, keepdim=True)
    return (product - result * total).masked_fill(mask, 0.0)


def _shrink_backward(gradient: Any, self: Any, lambd: Any) -> Any:
    counts.CALLS["shrink_backward"] += 1
    return torch.where((self >= -lambd) & (self <= lambd), 0, gradient)


def _shrink_backward_out(gradient: Any, self: Any, lambd: Any, *, grad_input: Any) -> Any:
    result = _shrink_backward(gradient, self, lambd)
    return grad_input.resize_(result.shape).copy_(result)


def _push_through_gate(result: Any, x: Any, dx: Any, dim: int) -> Any:
    """Return the tangent of glu, whose result is given."""
    counts.CALLS["glu_jvp"] += 1
    gate = torch.sigmoid(x.chunk(2, dim)[1])
    of_value, of_gate = dx.chunk(2, dim)
    return of_value * gate + result * (1 - gate) * of_gate


def _push_through_gradient_of_gate(
    of_x: Any, of_result: Any, x: Any, d_of_result: Any, dx: Any, dim: int
) -> Any:
    """Return the tangent of glu's gradient."""
    counts.CALLS["glu_backward_jvp"] += 1
    value, gate = x.chunk(2, dim)
    d_value, d_gate = dx.chunk(2, dim)
    gate = torch.sigmoid(gate)
    slope = gate * (1 - gate)
    d_slope = slope * (1 - 2 * gate) * d_gate
    first = d_of_result * gate + of_result * slope * d_gate
    second = (d_of_result * value + of_result * d_value) * slope + of_result * value * d_slope
    return torch.cat((first, second), dim)


KERNELS: Final = {
    "glu_jvp": _push_through_gate,
    "glu_backward_jvp": _push_through_gradient_of_gate,
    "softshrink_backward": _shrink_backward,
    "softshrink_backward.grad_input": _shrink_backward_out,
    "hardshrink_backward": _shrink_backward,
    "hardshrink_backward.grad_input": _shrink_backward_out,
    "_cdist_backward": _cdist_backward,
    "_masked_softmax": _masked_softmax,
    "_masked_softmax_backward": _masked_softmax_backward,
    "addbmm": _addbmm,
    "addbmm_": _addbmm_in_place,
    "addbmm.out": _addbmm_out,
    "_native_batch_norm_legit": _batch_norm,
    "_batch_norm_with_update": _batch_norm_with_update,
    "batch_norm_stats": _get_statistics,
    "batch_norm_gather_stats": _gather_statistics,
    "batch_norm_gather_stats_with_counts": _gather_statistics_of_counts,
    "_cdist_forward": _cdist,
    "equal": _equal,
    "_assert_async": _assert_nonzero,
    "_assert_async.msg": _assert_nonzero,
    "bincount": _bincount,
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_gru_cell_backward": _gru_cell_backward,
}
