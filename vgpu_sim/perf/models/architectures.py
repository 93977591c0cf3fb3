"""Models as data: the sizes in their published configurations (config.json)."""

from typing import Final

from boards.record.names import describe_unknown
from vgpu_sim.perf.attention.latent import CACHED, KEY, LATENT, PLAIN, VALUE
from vgpu_sim.perf.errors import UnknownModel
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder of transformer layers with gated feed-forward layers.

    Attention is grouped-query, or latent where ``query_rank`` (the width of compressed queries)
    is not 0. ``experts`` is 0 for a dense model. Otherwise ``inner`` is the width of one expert,
    ``shared`` is the number of additional experts that every token uses, and each of the first
    ``dense_layers`` layers has one feed-forward layer of width ``dense_inner`` instead of
    experts.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    experts: int = 0
    topk: int = 0
    shared: int = 0
    query_rank: int = 0
    dense_layers: int = 0
    dense_inner: int = 0

    @property
    def is_latent(self) -> bool:
        """True if attention is multi-head latent attention."""
        return self.query_rank > 0

    @property
    def cached(self) -> int:
        """The number of elements that one token has in the cache of one layer."""
        return CACHED if self.is_latent else 2 * self.kv_heads * self.head_dim

    def attention_parameters(self, heads: int, kv_heads: int) -> float:
        """Return the number of weights of one layer's attention on a rank with ``heads`` query
        heads and ``kv_heads`` key heads.
        """
        if not self.is_latent:
            return (2 * heads + 2 * kv_heads) * self.head_dim * self.hidden
        squeezed = self.hidden * (self.query_rank + CACHED)
        expanded = self.query_rank * heads * KEY + LATENT * heads * (PLAIN + VALUE)
        return squeezed + expanded + heads * VALUE * self.hidden

    def experts_parameters(self, count: float, width: float) -> float:
        """Return the number of weights of ``count`` experts of the given width, plus the shared
        experts and the router.
        """
        return 3 * self.hidden * (count * width + self.shared * width) + self.experts * self.hidden

    @property
    def parameters(self) -> float:
        """The number of weights of the whole model: layers, embedding and head (without norms)."""
        attention = self.attention_parameters(self.heads, self.kv_heads)
        if not self.experts:
            layers = self.layers * (attention + 3 * self.hidden * self.inner)
        else:
            mixed = attention + self.experts_parameters(self.experts, self.inner)
            dense = attention + 3 * self.hidden * self.dense_inner
            layers = (self.layers - self.dense_layers) * mixed + self.dense_layers * dense
        return layers + 2 * self.vocabulary * self.hidden


_ROWS: Final = (
    Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000),
    Architecture("llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000),
    Architecture("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000),
    Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256),
    Architecture("llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256),
    Architecture("llama-3-405b", 126, 16384, 128, 8, 128, 53248, 128256),
    Architecture("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, topk=2),
    Architecture("mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32768, experts=8, topk=2),
    Architecture(
        "deepseek-v3",
        61,
        7168,
        128,
        128,
        128,
        2048,
        129280,
        experts=256,
        topk=8,
        shared=1,
        query_rank=1536,
        dense_layers=3,
        dense_inner=18432,
    ),
)
ARCHITECTURES: Final = {row.name: row for row in _ROWS}


def architecture_named(name: str) -> Architecture:
    """Return the model with this name. Raises UnknownModel, which suggests names."""
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    raise UnknownModel(describe_unknown("model", name, ARCHITECTURES))
