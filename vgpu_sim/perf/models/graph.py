"""A model as a sequence of operators: the work of each rank of a node for one pass through one
stage.

With fp8, the products with a layer's weights and with its experts are in fp8, each after a
kernel that scales its input; the router, embedding and head, latent attention's absorbed
products and the cache stay in bf16.
"""

from collections.abc import Callable, Iterator
from typing import Final

from vgpu_sim.perf.attention.latent import CACHED, KEY, LATENT, PLAIN, VALUE, predict as latent
from vgpu_sim.perf.attention.predict import predict as attention
from vgpu_sim.perf.collective.predict import predict as collective, predict_send
from vgpu_sim.perf.gemm.predict import predict as gemm
from vgpu_sim.perf.models.architectures import Architecture
from vgpu_sim.perf.models.layout import Layout
from vgpu_sim.perf.moe.predict import predict as moe
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.perf.stream.predict import embedding, predict as stream, quantize, sampling
from vgpu_sim.records import dataclass

DTYPE: Final = "bf16"  # bytes of an element that is not a layer's weight
BYTES: Final = 2
WEIGHTS: Final = {"bf16": 2, "fp8": 1}  # bytes of a layer's weight, by type
# Experts in fp8 have block scales, as DeepSeek-V3 is published: experts with one scale per tensor
# were measured slower than bf16 on Hopper (Mixtral, 16 tokens, H200: 1285 us, bf16 362 us).
EXPERTS: Final = {"bf16": "bf16", "fp8": "fp8_block"}


@dataclass(frozen=True, slots=True)
class Step:
    """One pass through the model: ``query`` new tokens for each of ``batch`` sequences."""

    batch: int
    query: int
    context: int

    @property
    def tokens(self) -> int:
        """The number of new tokens of all sequences."""
        return self.batch * self.query


Operator = tuple[str, Callable[[], Prediction]]


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a model that one rank holds. A rank is one GPU. ``dtype`` is the type of the
    layers' weights.
    """

    model: Architecture
    board: str
    layout: Layout
    dtype: str = DTYPE

    @property
    def heads(self) -> int:
        """The number of query heads of a rank."""
        return self.model.heads // self.layout.tp

    @property
    def kv_heads(self) -> int:
        """The number of key and value heads of a rank: at least one. If there are fewer heads than
        ranks, several ranks hold copies.
        """
        return max(1, self.model.kv_heads // self.layout.tp)

    @property
    def inner(self) -> int:
        """The width of a dense feed-forward layer, or of an expert, on a rank."""
        if self.model.experts:
            return self.model.inner * self.layout.ep // self.layout.stage
        return self.model.inner // self.layout.tp

    def layers(self, step: Step) -> list[tuple[int, list[Operator]]]:
        """Return one entry for each kind of layer: the number of layers of that kind, and the
        operators of one such layer in order.
        """
        model = self.model
        kinds = [(model.layers - model.dense_layers, self._feed_forward)]
        if model.dense_layers:
            kinds.insert(0, (model.dense_layers, self._dense))
        return [(count, [*self._mixer(step), *end(step)]) for count, end in kinds]

    def _mixer(self, step: Step) -> Iterator[Operator]:
        hidden = self.model.hidden
        yield "norm of attention", lambda: self._norm(step.tokens)
        yield from self._latent(step) if self.model.is_latent else self._grouped_attention(step)
        width = VALUE if self.model.is_latent else self.model.head_dim
        yield from self._linear("output", step.tokens, hidden, self.heads * width)
        if self.layout.tp > 1:
            yield "all-reduce of attention", lambda: self._all_reduce(step)
        yield "norm of feed-forward", lambda: self._norm(step.tokens)

    def _grouped_attention(self, step: Step) -> Iterator[Operator]:
        hidden, dim = self.model.hidden, self.model.head_dim
        yield from self._linear("qkv", step.tokens, (self.heads + 2 * self.kv_heads) * dim, hidden)
        yield "rotary embedding", lambda: self._stream(step, (self.heads + self.kv_heads) * dim)
        yield "attention", lambda: self._attention(step)

    def _latent(self, step: Step) -> Iterator[Operator]:
        """Yield the operators of latent attention; the products of all heads are predicted as one
        wide product.
        """
        model, tokens, heads = self.model, step.tokens, self.heads
        yield from self._linear("squeeze", tokens, model.query_rank + CACHED, model.hidden)
        yield "norms of latents", lambda: self._stream(step, model.query_rank + CACHED)
        yield from self._linear("queries", tokens, heads * KEY, model.query_rank)
        if step.query > 1:
            yield from self._linear("keys and values", tokens, heads * (PLAIN + VALUE), LATENT)
        else:
            yield "absorb keys", lambda: self._gemm(tokens, heads * LATENT, PLAIN)
        yield "rotary embedding", lambda: self._stream(step, heads * (KEY - PLAIN))
        sizes = {"batch": step.batch, "query": step.query, "context": step.context}
        yield "attention", lambda: latent(self.board, heads=heads, **sizes)
        if step.query == 1:
            yield "absorb values", lambda: self._gemm(tokens, heads * VALUE, LATENT)

    def _dense(self, step: Step) -> Iterator[Operator]:
        yield from self._gated_mlp(step, self.model.dense_inner // self.layout.tp, "dense ")
        if self.layout.tp > 1:
            yield "dense all-reduce", lambda: self._all_reduce(step)

    def _gated_mlp(self, step: Step, inner: int, name: str = "") -> Iterator[Operator]:
        hidden, tokens = self.model.hidden, step.tokens
        yield from self._linear(f"{name}gate and up", tokens, 2 * inner, hidden)
        yield f"{name}activation", lambda: self._stream(step, inner, 2 * BYTES)
        yield from self._linear(f"{name}down", tokens, hidden, inner)

    def _feed_forward(self, step: Step) -> Iterator[Operator]:
        model, layout = self.model, self.layout
        if not model.experts:
            yield from self._gated_mlp(step, self.inner)
        else:
            yield "router", lambda: self._gemm(step.tokens, model.experts, model.hidden)
            if model.shared:
                width = model.shared * model.inner // layout.tp
                yield from self._gated_mlp(step, width, "shared expert: ")
            if layout.dp > 1:
                yield "dispatch to experts", lambda: self._exchange(step)
            yield "experts", lambda: self._experts(step.tokens * layout.dp)
            if layout.dp > 1:
                yield "combine of experts", lambda: self._exchange(step)
        if layout.tp > 1:
            yield "all-reduce of feed-forward", lambda: self._all_reduce(step)

    def stage_transfers(self, step: Step) -> Iterator[Operator]:
        """Yield the operator that sends a stage's result to the next stage. Yield nothing if there
        is only one stage.
        """
        if self.layout.pp > 1:
            size = step.tokens * self.model.hidden * BYTES
            yield "send to the next stage", lambda: predict_send(self.board, size)

    def outer_operators(self, step: Step) -> Iterator[Operator]:
        """Yield the operators before and after the layers. The head processes one token per
        sequence.
        """
        hidden, tp = self.model.hidden, self.layout.tp
        share = -(-self.model.vocabulary // tp)
        yield "embedding", lambda: embedding(self.board, step.tokens, hidden)
        yield "last norm", lambda: self._norm(step.batch)
        yield "head", lambda: self._gemm(step.batch, share, hidden)
        if tp > 1:
            size = step.batch * share * tp * BYTES
            yield "gather of logits", lambda: self._collective("all_gather", tp, size)
        yield "sampling", lambda: sampling(self.board, step.batch, self.model.vocabulary)

    def _linear(self, name: str, m: int, n: int, k: int) -> Iterator[Operator]:
        """Yield a product with weights of a layer, and the operator that scales its input if there
        is one.
        """
        if self.dtype != DTYPE:
            yield f"scaling for {name}", lambda: quantize(self.board, m, k)
        yield name, lambda: gemm(self.board, self.dtype, m, n, k)

    def _gemm(self, m: int, n: int, k: int) -> Prediction:
        return gemm(self.board, DTYPE, m, n, k)

    def _norm(self, tokens: int) -> Prediction:
        # The residual is read and written together with the row.
        return stream("norm", self.board, tokens, self.model.hidden, 2 * BYTES, 2 * BYTES)

    def _stream(self, step: Step, columns: int, read: int = BYTES) -> Prediction:
        return stream("elementwise", self.board, step.tokens, columns, read, BYTES)

    def _attention(self, step: Step) -> Prediction:
        return attention(
            self.board,
            batch=step.batch,
            query=step.query,
            context=step.context,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.model.head_dim,
        )

    def _all_reduce(self, step: Step) -> Prediction:
        size = step.tokens * self.model.hidden * BYTES
        return self._collective("all_reduce", self.layout.tp, size)

    def _exchange(self, step: Step) -> Prediction:
        """Predict the all-to-all exchange of tokens. A token is sent once to each rank that has one
        of its experts.
        """
        ranks = self.layout.stage
        copies = min(self.model.topk, ranks)
        # A replica's tokens are on each of its tp ranks, which divide the sending among them.
        size = -(-step.tokens * copies * self.model.hidden * BYTES // self.layout.tp)
        return self._collective("alltoall", ranks, size)

    def _collective(self, op: str, gpus: int, size: int) -> Prediction:
        return collective(self.board, op, DTYPE, gpus, size)

    def _experts(self, tokens: int) -> Prediction:
        return moe(
            self.board,
            tokens=tokens,
            hidden=self.model.hidden,
            inner=self.inner,
            topk=self.model.topk,
            experts=self.model.experts,
            ranks=self.layout.ep,
            dtype=EXPERTS[self.dtype],
        )
