"""The time of serving one batch: until the first token of each sequence, and for each token after
it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import require_dtype
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.models.architectures import Architecture, architecture_named
from vgpu_sim.perf.models.gaps import host_gaps_us
from vgpu_sim.perf.models.graph import DTYPE, WEIGHTS, Shard, Step
from vgpu_sim.perf.models.layout import NODE, RANKS, Layout
from vgpu_sim.perf.models.memory import Memory, memory
from vgpu_sim.perf.models.serving_intervals import Ends, bands
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Serving:
    """A request to predict the times of serving ``batch`` sequences that start together. ``given``
    is the number of input tokens of each sequence, and ``made`` is the number of its output
    tokens.

    ``tp``, ``pp``, ``dp`` and ``ep`` are as in ``Layout``. Without ``graphs`` the host launches
    each operator separately. ``dtype`` is the type of the layers' weights.
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
        """The distribution of the model over GPUs."""
        return Layout(self.tp, self.pp, self.dp, self.ep)


@dataclass(frozen=True, slots=True)
class Part:
    """An operator of a pass through the model: how often the pass runs the operator, the prediction
    of one run, and whether the operator belongs to a layer.
    """

    name: str
    times: int
    prediction: Prediction
    of_layer: bool

    @property
    def us(self) -> float:
        """The operator's time in microseconds per pass."""
        return self.times * self.prediction.us

    @property
    def half_width_us(self) -> float:
        """Half the width of the 90 % interval of the operator's time per pass, in microseconds. The
        error is the same in each run of the operator, so the errors add up.
        """
        low, high = self.prediction.interval
        return self.times * (high - low) / 2


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of all sequences through the model: the operators of the layers, and the operators
    before and after the layers.

    ``step`` is the work of one microbatch. ``layers`` is the number of layers in one stage, times
    the number of rounds. There is one round for each microbatch, and one more for each stage except
    the last. ``waiting`` is the total time, in microseconds, of the gaps between launches.
    """

    step: Step
    layers: int
    parts: tuple[Part, ...]
    waiting: float = 0.0

    @property
    def us(self) -> float:
        """The time in microseconds of all operators in sequence."""
        return sum(part.us for part in self.parts) + self.waiting

    @property
    def layer_us(self) -> float:
        """The time in microseconds of one layer; the mean if there are two kinds of layers."""
        return sum(part.us for part in self.parts if part.of_layer) / self.layers

    @property
    def half_width_us(self) -> float:
        """Half the width of the 90 % interval in microseconds, assuming that the errors of
        different operators are independent.
        """
        return float(np.sqrt(sum(part.half_width_us**2 for part in self.parts)))


@dataclass(frozen=True, slots=True)
class Report:
    """The prediction for serving a batch; all times are modelled. ``prompt_ms`` is the time that a
    replica needs to prefill a single sequence.
    """

    question: Serving
    architecture: Architecture
    memory: Memory
    prefill: Pass
    decode: Pass
    prompt_ms: float

    @property
    def ttft_ms(self) -> float:
        """Milliseconds until every sequence of the batch has its first token (TTFT)."""
        return self.prefill.us / 1e3

    @property
    def tpot_ms(self) -> float:
        """Milliseconds for each token after the first (TPOT), computed for the middle of the
        output.
        """
        return self.decode.us / 1e3

    @property
    def ttft_ends(self) -> Ends:
        """The bounds of TTFT in ms. The lower bound is the TTFT of a prompt that waits for no other
        prompt. The upper bound is the TTFT of the whole batch, whose prompts arrive at the same
        time.
        """
        return Ends(self.prompt_ms, self.ttft_ms)

    @property
    def tpot_ends(self) -> Ends:
        """The bounds of TPOT in ms. The lower bound is for a server that only decodes. The upper
        bound is for a server in steady state, which also processes the prompts of new sequences
        between the steps of decoding.
        """
        own = self.question.batch // self.question.layout.dp
        return Ends(self.tpot_ms, self.tpot_ms + self.prompt_ms * own / self.question.made)

    @property
    def tokens_per_s(self) -> float:
        """The number of generated tokens per second, of all sequences together."""
        total = self.ttft_ms + (self.question.made - 1) * self.tpot_ms
        return 1e3 * self.question.batch * self.question.made / total

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        question = self.question
        return {
            "model": question.model,
            "board": question.board,
            "tp": question.tp,
            "pp": question.pp,
            "dp": question.dp,
            "ep": question.ep,
            "dtype": question.dtype,
            "cuda_graphs": question.graphs,
            "batch": question.batch,
            "in": question.given,
            "out": question.made,
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
                    "us": model_pass.us,
                    "us_half_90_percent": model_pass.half_width_us,
                    "layer_us": model_pass.layer_us,
                    "launch_gaps_us": model_pass.waiting,
                    "operators": [
                        {"name": p.name, "times": p.times, **p.prediction.as_json()}
                        for p in model_pass.parts
                    ],
                }
                for name, model_pass in (("prefill", self.prefill), ("decode", self.decode))
            },
        }


def predict_serving(question: Serving, *, mechanistic: bool = False) -> Report:
    """Predict the times of serving a batch. If ``mechanistic`` is set, the fitted residuals are
    left out.

    Raises:
        PerfError: no such model or board, ranks that do not divide the model, sizes below 1, an
            operator without fitted parameters, or a model that does not fit into a rank's memory.
    """
    model, board = architecture_named(question.model), board_named(question.board)
    for name in ("batch", "given", "made"):
        if getattr(question, name) < 1:
            raise BadShape(f"{name} must be at least 1")
    if question.dtype not in WEIGHTS:
        raise BadShape(
            f"the type of the weights must be {' or '.join(WEIGHTS)}, not {question.dtype}"
        )
    require_dtype(board, question.dtype)
    layout = question.layout
    layout.check(model)
    if question.batch % layout.dp:
        raise BadShape(f"batch must be a multiple of dp {layout.dp}, not {question.batch}")
    need = _memory(question, layout)
    if need.total > board.dram_gb.value:
        raise BadShape(_does_not_fit(question, need, board.dram_gb.value))
    shard = Shard(model, question.board, layout, question.dtype)
    # A replica's sequences, and the part of them that is in one stage at a time.
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
    for candidate, tp in ways:
        if _fits(candidate, tp, has):
            cure = f"it fits with tp {tp}" + (
                " in fp8" if candidate.dtype != question.dtype else ""
            )
            break
    parts = ", ".join(f"{name} {getattr(need, name):.1f}" for name in Memory.__slots__)
    return (
        f"{question.model} in {question.dtype} needs {need.total:.1f} GB a rank with"
        f" {question.layout} ({parts}); "
        f"{question.board} has {has:.0f}: {cure}"
    )


def _fits(question: Serving, tp: int, has: float) -> bool:
    model, layout = architecture_named(question.model), question.layout
    wider = replace(layout, tp=tp, ep=min(layout.ep, tp * layout.dp))
    possible = wider.gpus <= NODE and model.heads % tp == 0
    return possible and _memory(question, wider).total <= has


def _pass(shard: Shard, step: Step, batches: int, graphs: bool, mechanistic: bool) -> Pass:
    """Return one pass, which takes one round per microbatch plus one for each earlier stage."""
    pp = shard.layout.pp
    rounds = batches + pp - 1
    kinds = [(-(-count // pp), operators) for count, operators in shard.layers(step)]
    runs = [(count * rounds, operators, True) for count, operators in kinds]
    runs.append((rounds - 1, list(shard.stage_transfers(step)), False))
    runs.append((batches, list(shard.outer_operators(step)), False))
    parts: list[Part] = []
    order: list[float] = []
    for times, operators, of_layer in runs:
        run_parts = [Part(name, times, ask(), of_layer) for name, ask in operators]
        if mechanistic:
            run_parts = [
                replace(part, prediction=part.prediction.mechanistic()) for part in run_parts
            ]
        parts += run_parts
        order += [part.prediction.us for part in run_parts] * times
    waiting = 0.0 if graphs else host_gaps_us(order)
    return Pass(step, sum(count for count, _ in kinds) * rounds, tuple(parts), waiting)
