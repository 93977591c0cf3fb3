"""The memory that a rank needs for weights, the cache of keys and values, and the activations of
one step.
"""

from typing import Final

from vgpu_sim.perf.models.graph import BYTES, WEIGHTS, Shard
from vgpu_sim.records import dataclass

_RESERVED_GB: Final = 2.0  # the context, libraries' workspaces, NCCL's buffers: a round figure


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that one rank needs for each purpose, in gigabytes (10^9 bytes)."""

    weights: float
    cache: float
    activations: float
    reserved: float = _RESERVED_GB

    @property
    def total(self) -> float:
        """The memory for all purposes together, in gigabytes."""
        return self.weights + self.cache + self.activations + self.reserved


def memory(shard: Shard, batch: int, length: int, tokens: int) -> Memory:
    """Return the memory that a rank needs for ``batch`` sequences of ``length`` tokens each.
    ``tokens`` is the number of tokens that the rank processes at a time.
    """
    model, layout = shard.model, shard.layout
    attention = model.attention_parameters(shard.heads, shard.kv_heads)
    if model.experts:
        # Only the rank's experts count; shared weights are divided among the tp ranks.
        own = 3 * model.hidden * shard.inner * model.experts / layout.ep
        common = 3 * model.hidden * model.shared * model.inner / layout.tp
        layer_parameters = attention + own + common
    else:
        layer_parameters = attention + 3 * model.hidden * shard.inner
    dense = attention + 3 * model.hidden * model.dense_inner / layout.tp
    layers = (model.layers - model.dense_layers) * layer_parameters + model.dense_layers * dense
    routers = (model.layers - model.dense_layers) * model.experts * model.hidden / layout.pp
    ends = 2 * model.vocabulary * model.hidden / layout.tp
    weights = WEIGHTS[shard.dtype] * layers / layout.pp + BYTES * (routers + ends)
    cached = model.cached if model.is_latent else 2 * shard.kv_heads * model.head_dim
    cache = model.layers * batch * length * cached / layout.pp
    width = 2 * model.hidden + 3 * shard.inner * max(1, model.topk)
    return Memory(*(size / 1e9 for size in (weights, BYTES * cache, BYTES * tokens * width)))
