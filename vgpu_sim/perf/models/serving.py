"""What serving one batch takes: the first token of each sequence, and each token after it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import supported
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.models.architectures import Architecture, architecture_named
from vgpu_sim.perf.models.gaps import gaps
from vgpu_sim.perf.models.graph import DTYPE, WEIGHTS, Shard, Step
from vgpu_sim.perf.models.layout import NODE, RANKS, Layout
from vgpu_sim.perf.models.memory import Memory, memory
from vgpu_sim.perf.models.served import Ends, bands
from vgpu_sim.perf.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Serving:
    """The question: ``batch`` sequences that start together, ``given`` tokens in, ``made`` out.

    ``tp``, ``pp``, ``dp`` and ``ep`` as in ``Layout``. Without ``graphs`` the host launches each
    operator by itself. ``dtype`` is of the layers' weights.
    """

    model: str
    board: str
    tp: int
    batch: int
    given: int
    made: int
    pp: int = 1
    dp: int = 1
    ep: int = 1
    graphs: bool = True
    dtype: str = DTYPE

    @property
    def layout(self) -> Layout:
        """How the model is spread."""
        return Layout(self.tp, self.pp, self.dp, self.ep)


@dataclass(frozen=True, slots=True)
class Part:
    """An operator of a pass: how often, its prediction, and whether a layer has it."""

    name: str
    times: int
    prediction: Prediction
    of_layer: bool

    @property
    def us(self) -> float:
        """Microseconds of the pass."""
        return self.times * self.prediction.us

    @property
    def half(self) -> float:
        """Half the 90 % interval in microseconds: the same error each time."""
        low, high = self.prediction.interval
        return self.times * (high - low) / 2


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of all sequences through the model: operators of layers, and those at its ends.

    ``step`` is a microbatch's; ``layers`` is how many layers one rank runs one after the other
    until the last microbatch has left the last stage; ``waiting`` are gaps between launches in us.
    """

    step: Step
    layers: int
    parts: tuple[Part, ...]
    waiting: float = 0.0

    @property
    def us(self) -> float:
        """Microseconds: operators one after the other."""
        return sum(part.us for part in self.parts) + self.waiting

    @property
    def layer_us(self) -> float:
        """Microseconds of one layer, the mean where there are two kinds."""
        return sum(part.us for part in self.parts if part.of_layer) / self.layers

    @property
    def half(self) -> float:
        """Half an interval in microseconds, if the operators' errors are independent."""
        return float(np.sqrt(sum(part.half**2 for part in self.parts)))


@dataclass(frozen=True, slots=True)
class Report:
    """The answer; times modelled. ``prompt_ms`` is the prefill of one sequence a replica."""

    question: Serving
    architecture: Architecture
    memory: Memory
    prefill: Pass
    decode: Pass
    prompt_ms: float

    @property
    def ttft_ms(self) -> float:
        """Milliseconds to the first token of all sequences."""
        return self.prefill.us / 1e3

    @property
    def tpot_ms(self) -> float:
        """Milliseconds for each token after the first, at half of the output."""
        return self.decode.us / 1e3

    @property
    def ttft_ends(self) -> Ends:
        """A prompt that waits for no other, and the whole batch at once."""
        return Ends(self.prompt_ms, self.ttft_ms)

    @property
    def tpot_ends(self) -> Ends:
        """Decode alone, and with the prompts that a server in steady state processes meanwhile."""
        own = self.question.batch // self.question.layout.dp
        return Ends(self.tpot_ms, self.tpot_ms + self.prompt_ms * own / self.question.made)

    @property
    def tokens_per_s(self) -> float:
        """Tokens made in a second, of all sequences."""
        total = self.ttft_ms + (self.question.made - 1) * self.tpot_ms
        return 1e3 * self.question.batch * self.question.made / total

    def as_json(self) -> dict[str, Any]:
        """Return the report as one object of JSON."""
        asked = self.question
        return {
            "model": asked.model,
            "board": asked.board,
            "tp": asked.tp,
            "pp": asked.pp,
            "dp": asked.dp,
            "ep": asked.ep,
            "dtype": asked.dtype,
            "cuda_graphs": asked.graphs,
            "batch": asked.batch,
            "in": asked.given,
            "out": asked.made,
            "modelled": True,
            "ttft_ms": self.ttft_ms,
            "tpot_ms": self.tpot_ms,
            "tokens_per_s": self.tokens_per_s,
            "served_90_percent": {
                "ttft_ms": list(bands().ttft.interval(self.ttft_ends)),
                "tpot_ms": list(bands().tpot.interval(self.tpot_ends)),
                "measured_points": bands().points,
            },
            "memory_gb": {name: getattr(self.memory, name) for name in Memory.__slots__}
            | {"total": self.memory.total},
            "passes": {
                name: {
                    "us": one.us,
                    "us_half_90_percent": one.half,
                    "layer_us": one.layer_us,
                    "launch_gaps_us": one.waiting,
                    "operators": [
                        {"name": p.name, "times": p.times, **p.prediction.as_json()}
                        for p in one.parts
                    ],
                }
                for name, one in (("prefill", self.prefill), ("decode", self.decode))
            },
        }


def serve(question: Serving, *, mechanistic: bool = False) -> Report:
    """Predict what serving a batch takes; ``mechanistic`` leaves learned residuals out.

    Raises:
        PerfError: no such model or board, ranks that do not divide it, sizes below 1, an operator
            that nothing was fitted for, or a model that does not fit into a rank's memory.
    """
    model, board = architecture_named(question.model), board_named(question.board)
    for name in ("batch", "given", "made"):
        if getattr(question, name) < 1:
            raise BadShape(f"{name} must be at least 1")
    if question.dtype not in WEIGHTS:
        raise BadShape(f"weights are {' or '.join(WEIGHTS)}, not {question.dtype}")
    supported(board, question.dtype)
    layout = question.layout
    layout.check(model)
    if question.batch % layout.dp:
        raise BadShape(f"batch must be a multiple of dp {layout.dp}, not {question.batch}")
    need = _memory(question, layout)
    if need.total > board.dram_gb.value:
        raise BadShape(_does_not_fit(question, need, board.dram_gb.value))
    shard = Shard(model, question.board, layout, question.dtype)
    # A replica's sequences, and of those the part that is in one stage at a time.
    own = question.batch // layout.dp
    microbatch = -(-own // layout.pp)
    first = Step(microbatch, question.given, question.given)
    later = Step(microbatch, 1, question.given + max(1, question.made // 2))
    batches = -(-own // microbatch)
    prefill, decode = (
        _pass(shard, step, batches, question.graphs, mechanistic) for step in (first, later)
    )
    prompt = prefill
    if own > 1:
        alone = Step(1, question.given, question.given)
        prompt = _pass(shard, alone, 1, question.graphs, mechanistic)
    return Report(question, model, need, prefill, decode, prompt.us / 1e3)


def _memory(question: Serving, layout: Layout) -> Memory:
    shard = Shard(architecture_named(question.model), question.board, layout, question.dtype)
    length, own = question.given + question.made, -(-question.batch // layout.dp)
    return memory(shard, own, length, -(-own // layout.pp) * question.given)


def _does_not_fit(question: Serving, need: Memory, has: float) -> str:
    smaller = replace(question, dtype="fp8")
    ways = [(question, tp) for tp in RANKS]
    if "fp8" in board_named(question.board).tensor_tflops:
        ways += [(smaller, tp) for tp in RANKS]
    cure = "it does not fit into one node of 8"
    for asked, tp in ways:
        if _fits(asked, tp, has):
            cure = f"it fits with tp {tp}" + (" in fp8" if asked.dtype != question.dtype else "")
            break
    parts = ", ".join(f"{name} {getattr(need, name):.1f}" for name in Memory.__slots__)
    return (
        f"{question.model} in {question.dtype} needs {need.total:.1f} GB a rank with"
        f" {question.layout} ({parts}); "
        f"{question.board} has {has:.0f}: {cure}"
    )


def _fits(question: Serving, tp: int, has: float) -> bool:
    model, asked = architecture_named(question.model), question.layout
    wider = replace(asked, tp=tp, ep=min(asked.ep, tp * asked.dp))
    possible = wider.gpus <= NODE and model.heads % tp == 0
    return possible and _memory(question, wider).total <= has


def _pass(shard: Shard, step: Step, batches: int, graphs: bool, mechanistic: bool) -> Pass:
    """One pass: a stage works for each microbatch, and for as many as there are stages before."""
    pp = shard.layout.pp
    rounds = batches + pp - 1
    kinds = [(-(-count // pp), operators) for count, operators in shard.layers(step)]
    runs = [(count * rounds, operators, True) for count, operators in kinds]
    runs.append((rounds - 1, list(shard.between(step)), False))
    runs.append((batches, list(shard.ends(step)), False))
    parts: list[Part] = []
    order: list[float] = []
    for times, operators, of_layer in runs:
        some = [Part(name, times, ask(), of_layer) for name, ask in operators]
        if mechanistic:
            some = [replace(part, prediction=part.prediction.mechanistic()) for part in some]
        parts += some
        order += [part.prediction.us for part in some] * times
    waiting = 0.0 if graphs else gaps(order)
    return Pass(step, sum(count for count, _ in kinds) * rounds, tuple(parts), waiting)
