"""SDXL's denoiser: a U-Net of convolutions and transformers, by its published configuration.

One denoising step is one pass through the U-Net. Text encoders and the image decoder are not
included. Convolutions are predicted as matrix products (implicit GEMM: pixels by output channels
by nine times the input channels), which was not measured.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from vgpu_sim.perf.attention.predict import predict as attention
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.gemm.predict import predict as gemm
from vgpu_sim.perf.models.gaps import host_gaps_us
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.perf.stream.predict import predict as stream
from vgpu_sim.records import dataclass

NAME: Final = "sdxl"
_DTYPE, _BYTES = "bf16", 2
_CHANNELS: Final = (320, 640, 1280)  # of a level; each level halves the previous one's side
_DEPTH: Final = (0, 2, 10)  # transformer layers of a level
_DOWN, _UP = 2, 3  # residual blocks of a level on the way down, and up
_LATENT: Final = 4  # channels of the image's latent, whose side is an eighth of the image's
_HEAD: Final = 64
_TEXT, _TEXT_WIDTH = 77, 2048  # tokens of the prompt and their width
_TIME: Final = 1280  # width of the time embedding
_ADDED: Final = 2816  # width of the pooled text and the sizes that accompany it
_RESERVED_GB: Final = 2.0
_STRIDE: Final = 8


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the U-Net. ``weights`` is the number of its weights, and the function ``ask``
    predicts its time. If several operators have the same ``key``, ``ask`` is called for only one
    of them.
    """

    kind: str
    key: tuple[object, ...]
    weights: int
    ask: Callable[[], Prediction]


@dataclass(frozen=True, slots=True)
class UNet:
    """The network that denoises a batch of square images. ``side`` is the width of an image in
    pixels. ``batch`` is twice the number of requested images, because guidance doubles the
    batch.
    """

    board: str
    batch: int
    side: int

    def operators(self) -> Iterator[Operator]:
        """Yield the operators of one pass through the U-Net, in order."""
        side = self.side // _STRIDE
        yield from self._embedding(_CHANNELS[0], _TIME)
        yield from self._embedding(_ADDED, _TIME)
        yield self._conv(side, _LATENT, _CHANNELS[0])
        skip_widths, width = [_CHANNELS[0]], _CHANNELS[0]
        for level, out in enumerate(_CHANNELS):
            for _ in range(_DOWN):
                yield from self._block(side, width, out, _DEPTH[level])
                width = out
                skip_widths.append(width)
            if level < len(_CHANNELS) - 1:
                side //= 2
                yield self._conv(side, width, width)
                skip_widths.append(width)
        yield from self._block(side, width, width, _DEPTH[-1])
        yield from self._residual(side, width, width)
        for level in reversed(range(len(_CHANNELS))):
            out = _CHANNELS[level]
            for _ in range(_UP):
                yield from self._block(side, width + skip_widths.pop(), out, _DEPTH[level])
                width = out
            if level:
                side *= 2
                yield self._conv(side, width, width)
        yield self._pointwise("norm", side * side, width)
        yield self._conv(side, width, _LATENT)

    def _block(self, side: int, width: int, out: int, depth: int) -> Iterator[Operator]:
        yield from self._residual(side, width, out)
        if depth:
            yield from self._transformer(side * side, out, depth)

    def _residual(self, side: int, width: int, out: int) -> Iterator[Operator]:
        pixels = side * side
        yield self._pointwise("norm", pixels, width)
        yield self._conv(side, width, out)
        yield self._product("time", 1, out, _TIME)
        yield self._pointwise("norm", pixels, out)
        yield self._conv(side, out, out)
        if width != out:
            yield self._product("convolution", pixels, out, width)
        yield self._pointwise("addition", pixels, out)

    def _transformer(self, pixels: int, width: int, depth: int) -> Iterator[Operator]:
        yield self._pointwise("norm", pixels, width)
        yield self._product("projection", pixels, width, width)
        for _ in range(depth):
            yield self._pointwise("norm", pixels, width)
            yield self._product("projection", pixels, 3 * width, width, bias=False)
            yield self._attention("self-attention", pixels, pixels, width)
            yield self._product("projection", pixels, width, width)
            yield self._pointwise("norm", pixels, width)
            yield self._product("projection", pixels, width, width, bias=False)
            yield self._product("projection", _TEXT, 2 * width, _TEXT_WIDTH, bias=False)
            yield self._attention("cross-attention", pixels, _TEXT, width)
            yield self._product("projection", pixels, width, width)
            yield self._pointwise("norm", pixels, width)
            yield self._product("feed-forward", pixels, 8 * width, width)
            yield self._pointwise("activation", pixels, 4 * width)
            yield self._product("feed-forward", pixels, width, 4 * width)
        yield self._product("projection", pixels, width, width)

    def _embedding(self, width: int, out: int) -> Iterator[Operator]:
        yield self._product("time", 1, out, width)
        yield self._product("time", 1, out, out)

    def _product(self, kind: str, rows: int, n: int, k: int, *, bias: bool = True) -> Operator:
        m = self.batch * rows
        weights = n * k + bias * n
        return Operator(kind, ("gemm", m, n, k), weights, lambda: gemm(self.board, _DTYPE, m, n, k))

    def _conv(self, side: int, width: int, out: int) -> Operator:
        return self._product("convolution", side * side, out, 9 * width)

    def _pointwise(self, kind: str, pixels: int, width: int) -> Operator:
        rows = self.batch * pixels
        weights = 2 * width if kind == "norm" else 0
        return Operator(
            kind,
            ("stream", rows, width),
            weights,
            lambda: stream("elementwise", self.board, rows, width, _BYTES, _BYTES),
        )

    def _attention(self, kind: str, query: int, context: int, width: int) -> Operator:
        heads = width // _HEAD
        sizes = {"batch": self.batch, "query": query, "context": context, "head_dim": _HEAD}
        return Operator(
            kind,
            ("attention", query, context, heads),
            0,
            lambda: attention(self.board, heads=heads, kv_heads=heads, causal=False, **sizes),
        )


@dataclass(frozen=True, slots=True)
class Drawing:
    """The predicted time of a request to generate images. ``kinds`` has the modelled times of one
    denoising step, by kind of operator.
    """

    board: str
    batch: int
    side: int
    steps: int
    parameters: int
    memory_gb: float
    kinds: dict[str, tuple[int, float]]
    step_us: float
    waiting: float
    half: float

    @property
    def seconds(self) -> float:
        """The time of all steps in seconds."""
        return self.steps * self.step_us / 1e6

    def as_json(self) -> dict[str, Any]:
        """Return the prediction as a JSON object."""
        kinds = {kind: {"times": n, "us": us} for kind, (n, us) in self.kinds.items()}
        return {
            "model": NAME,
            "board": self.board,
            "batch": self.batch,
            "side": self.side,
            "steps": self.steps,
            "modelled": True,
            "step_us": self.step_us,
            "step_us_half_90_percent": self.half,
            "launch_gaps_us": self.waiting,
            "seconds": self.seconds,
            "memory_gb": self.memory_gb,
            "operators": kinds,
        }


@dataclass(frozen=True, slots=True)
class Request:
    """A request to generate ``batch`` images of ``side`` pixels in ``steps`` steps, with or without
    a CUDA graph.
    """

    batch: int = 1
    side: int = 1024
    steps: int = 50
    graphs: bool = True


def predict_image_generation(board: str, request: Request, *, mechanistic: bool = False) -> Drawing:
    """Predict how long one board takes for the denoising steps of a request, with guidance. If
    ``mechanistic`` is set, the fitted residuals are left out.

    Raises:
        PerfError: no such board, sizes that the U-Net does not accept, an operator without fitted
            parameters, or a model that does not fit into the memory.
    """
    batch, side = request.batch, request.side
    hardware = board_named(board)
    if batch < 1 or request.steps < 1:
        raise BadShape("batch and steps must be at least 1")
    if side < 1 or side % (4 * _STRIDE):
        raise BadShape(f"the side must be a multiple of {4 * _STRIDE} pixels, not {side}")
    operators = list(UNet(board, 2 * batch, side).operators())
    parameters = sum(operator.weights for operator in operators)
    widest = 2 * batch * (side // _STRIDE) ** 2 * 3 * _CHANNELS[0]
    need = _BYTES * (parameters + 4 * widest) / 1e9 + _RESERVED_GB
    if need > hardware.dram_gb.value:
        raise BadShape(
            f"{NAME} needs {need:.1f} GB, but {board} has {hardware.dram_gb.value:.0f} GB"
        )
    known_us: dict[tuple[object, ...], Prediction] = {}
    for operator in operators:
        if operator.key not in known_us:
            prediction = operator.ask()
            known_us[operator.key] = prediction.mechanistic() if mechanistic else prediction
    predictions = [known_us[operator.key] for operator in operators]
    kinds: dict[str, tuple[int, float]] = {}
    widths: dict[str, float] = {}
    for operator, prediction in zip(operators, predictions, strict=True):
        times, us = kinds.get(operator.kind, (0, 0.0))
        kinds[operator.kind] = (times + 1, us + prediction.us)
        # Errors of one kind of operator are equal; errors of different kinds are independent.
        low, high = prediction.interval
        widths[operator.kind] = widths.get(operator.kind, 0.0) + (high - low) / 2
    waiting = 0.0 if request.graphs else host_gaps_us(prediction.us for prediction in predictions)
    half = sum(width**2 for width in widths.values()) ** 0.5
    us = sum(prediction.us for prediction in predictions) + waiting
    return Drawing(board, batch, side, request.steps, parameters, need, kinds, us, waiting, half)
