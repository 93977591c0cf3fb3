"""Attention under the names of CUDA's fused kernels: flash, memory-efficient and cuDNN's.

Programs choose these with ``torch.nn.attention.sdpa_kernel``. All compute the same: products, a
softmax in float32, and products. The logarithms of the softmax's sums are kept for gradients, as
the fused kernels keep them; the matrix of probabilities is computed again.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.own.random import draw_of_state, reserve_on_device


def _scores(query: Any, key: Any, bias: Any, causal: bool, scale: float | None) -> Any:
    """Return scaled products with a bias; minus infinity where a query must not see a key."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    product = (query.to(torch.float32) * factor) @ key.to(torch.float32).mT
    if bias is not None:
        product = product + bias
    if causal:
        shape = product.shape[-2:]
        causal_mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        product = product.masked_fill(~causal_mask, -math.inf)
    return product


def _drop(shape: Any, p: float, state: tuple[Any, Any]) -> Any:
    """Return the factors of dropout: those of equal states of the generator are equal."""
    keep_mask = draw_of_state(shape, *state) <= 1 - p
    return keep_mask * (1 / (1 - p) if p < 1 else 0.0)


def _reserve(device: Any, p: float) -> tuple[Any, Any]:
    """Return the generator's seed and offset, and advance it: undefined ones without dropout."""
    if p:
        return reserve_on_device(device, 4)
    return tuple(torch.empty((), dtype=torch.int64, device=device) for _ in range(2))


def _forward(
    name: str, query: Any, key: Any, value: Any, bias: Any, p: float, causal: bool,
    scale: float | None,
) -> tuple[Any, Any, tuple[Any, Any]]:  # fmt: skip
    counts.CALLS[name] += 1
    key, value = _repeat(query, key), _repeat(query, value)
    scores = _scores(query, key, bias, causal, scale)
    sums = torch.logsumexp(scores, -1)
    weights = _weights(scores, sums)
    state = _reserve(query.device, p)
    if p:
        weights = weights * _drop(weights.shape, p, state)
    output = (weights @ value.to(torch.float32)).to(query.dtype)
    return _in_layout_of(query, output), sums, state


def _weights(scores: Any, sums: Any) -> Any:
    """Return the probabilities; those of a query that sees no key are 0."""
    nothing = sums == -math.inf
    return torch.exp(scores - sums.masked_fill(nothing, 0.0)[..., None])


def _repeat(query: Any, keys_or_values: Any) -> Any:
    """Return keys or values for each head of the queries, of which several may share one."""
    heads = query.shape[1]
    return (
        keys_or_values
        if keys_or_values.shape[1] == heads
        else keys_or_values.repeat_interleave(heads // keys_or_values.shape[1], 1)
    )


def _in_layout_of(query: Any, output: Any) -> Any:
    """Return a result as the fused kernels do: (batch, length, heads, width) in memory."""
    return output.transpose(1, 2).contiguous().transpose(1, 2)


def _backward(
    name: str, gradient: Any, query: Any, key: Any, value: Any, bias: Any, output: Any, sums: Any,
    p: float, causal: bool, state: tuple[Any, Any], scale: float | None,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Return the gradients of queries, keys, values and scores; the latter is that of a bias."""
    counts.CALLS[f"{name}_backward"] += 1
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    keys, values = _repeat(query, key), _repeat(query, value)
    sums = sums[..., : query.shape[-2]].reshape(*query.shape[:-1])
    weights = _weights(_scores(query, keys, bias, causal, scale), sums)
    above = gradient.to(torch.float32)
    of_weights = above @ values.to(torch.float32).mT
    used = weights
    if p:
        factors = _drop(weights.shape, p, state)
        used, of_weights = weights * factors, of_weights * factors
    of_values = used.mT @ above
    inner = (above * output.to(torch.float32)).sum(-1, keepdim=True)
    of_scores = weights * (of_weights - inner)
    of_queries = of_scores @ keys.to(torch.float32) * factor
    of_keys = of_scores.mT @ query.to(torch.float32) * factor
    return (
        of_queries.to(query.dtype),
        _sum_heads(of_keys, key),
        _sum_heads(of_values, value),
        of_scores,
    )


def _sum_heads(gradient: Any, keys_or_values: Any) -> Any:
    heads = keys_or_values.shape[1]
    if heads != gradient.shape[1]:
        gradient = gradient.unflatten(1, (heads, -1)).sum(2)
    return gradient.to(keys_or_values.dtype)


def _flash(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    name = "_scaled_dot_product_flash_attention"
    output, sums, state = _forward(name, query, key, value, None, dropout_p, is_causal, scale)
    none = query.new_empty(0)
    lengths = query.shape[2], key.shape[2]
    return (output, sums, None, None, *lengths, *state, none)


def _flash_backward(
    grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, cum_seq_q: Any,
    cum_seq_k: Any, max_q: int, max_k: int, dropout_p: float, is_causal: bool, philox_seed: Any,
    philox_offset: Any, *, scale: float | None = None,
) -> Any:  # fmt: skip
    state = (philox_seed, philox_offset)
    return _backward(
        "_scaled_dot_product_flash_attention", grad_out, query, key, value, None, out, logsumexp,
        dropout_p, is_causal, state, scale,
    )[:3]  # fmt: skip


def _efficient(
    query: Any, key: Any, value: Any, attn_bias: Any, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    name = "_scaled_dot_product_efficient_attention"
    output, sums, state = _forward(name, query, key, value, attn_bias, dropout_p, is_causal, scale)
    return (output, sums, *state)


def _efficient_backward(
    grad_out_: Any, query: Any, key: Any, value: Any, attn_bias: Any, out: Any, logsumexp: Any,
    philox_seed: Any, philox_offset: Any, dropout_p: float, grad_input_mask: Any,
    is_causal: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    state = (philox_seed, philox_offset)
    *three, of_scores = _backward(
        "_scaled_dot_product_efficient_attention", grad_out_, query, key, value, attn_bias, out,
        logsumexp, dropout_p, is_causal, state, scale,
    )  # fmt: skip
    of_bias = None
    if attn_bias is not None and grad_input_mask[3]:
        of_bias = of_scores.sum_to_size(attn_bias.shape).to(attn_bias.dtype)
    return (*three, of_bias)


def _cudnn(
    query: Any, key: Any, value: Any, attn_bias: Any, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, *,
    scale: float | None = None,
) -> Any:  # fmt: skip
    name = "_scaled_dot_product_cudnn_attention"
    output, sums, state = _forward(name, query, key, value, attn_bias, dropout_p, is_causal, scale)
    lengths = query.shape[2], key.shape[2]
    return (output, sums, None, None, *lengths, *state, None)


def _cudnn_backward(
    grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, philox_seed: Any,
    philox_offset: Any, attn_bias: Any, cum_seq_q: Any, cum_seq_k: Any, max_q: int, max_k: int,
    dropout_p: float, is_causal: bool, *, scale: float | None = None,
) -> Any:  # fmt: skip
    state = (philox_seed, philox_offset)
    return _backward(
        "_scaled_dot_product_cudnn_attention", grad_out, query, key, value, attn_bias, out,
        logsumexp, dropout_p, is_causal, state, scale,
    )[:3]  # fmt: skip


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_scaled_dot_product_flash_attention": _flash,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention": _efficient,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention": _cudnn,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
}
