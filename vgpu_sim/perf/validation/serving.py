"""Whole models: measured serving points (TTFT, TPOT), and the factors that are fitted to them.

The points are in ``silicon_sample.csv`` of the package with the tables. Points of an aggregated
server are compared if ``tessera perf model`` supports their model and board. The others are
counted by the reason for exclusion. Accuracy is computed with factors that were fitted without
the points of the same model and board.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from vgpu_sim.perf.errors import NoData, PerfError
from vgpu_sim.perf.models import Serving, predict_serving
from vgpu_sim.perf.models.serving_intervals import Band, Bands, Ends
from vgpu_sim.perf.validation import measurements
from vgpu_sim.records import dataclass

_FILE: Final = "silicon_sample.csv"
_MODELS: Final = {
    "meta-llama/Llama-3.1-70B": "llama-3-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3-8b",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
}
_BOARDS: Final = {measurements.THEIRS[name]: name for name in ("h100-80gb", "h200", "b200")}
_DTYPES: Final = {"": "bf16", "fp8": "fp8", "fp8_block": "fp8"}
_TAIL: Final = 0.05  # share of each group's points beyond either end
TIMES: Final = ("ttft", "tpot")
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A measured serving run and its prediction; ``group`` consists of model, board and library."""

    group: Key
    measured: dict[str, float]
    predicted: dict[str, float]
    half: dict[str, float]
    ends: dict[str, Ends]

    @property
    def model_and_board(self) -> Key:
        """The point's model and board. Points that have the same model and board are validated
        together, with factors that were fitted to all other points.
        """
        return self.group[:2]

    def is_inside(self, time: str, band: Band) -> bool:
        """Return whether the point's measured ``time`` (TTFT or TPOT) is within the interval."""
        low, high = band.interval(self.ends[time])
        return low <= self.measured[time] <= high


@dataclass(frozen=True, slots=True)
class Row:
    """The errors of the predictions of TTFT or TPOT for one group of points, in percent.

    ``inside`` is the share of points within the printed interval. The factors of this interval are
    fitted to the points of other models and boards; without such points, ``inside`` is None.
    ``inside_operators`` is the share of points within another interval, which is the sum of the
    intervals of the operators.
    """

    group: Key
    time: str
    points: int
    mape: float
    ratio: float
    inside_operators: float
    inside: float | None


def predictable_rows() -> tuple[list[tuple[dict[str, str], Serving]], Counter[str]]:
    """Return the measured rows that can be predicted, each with its request. Also return how many
    rows were excluded, by reason.

    Raises:
        NoData: the measurements are not installed.
    """
    rows: list[tuple[dict[str, str], Serving]] = []
    excluded: Counter[str] = Counter()
    path = measurements.folder().parent / _FILE
    if not path.exists():
        raise NoData(f"{measurements.PACKAGE} has no file {_FILE}")
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            reason = _why_not(row)
            if reason:
                excluded[reason] += 1
            else:
                rows.append((row, _question(row)))
    return rows, excluded


def _why_not(row: dict[str, str]) -> str:
    if row["mode"] != "agg":
        return "prefill and decode on separate servers"
    if row["model_path"] not in _MODELS:
        return "another model"
    if row["system"] not in _BOARDS:
        return "another board"
    if row["gemm_quant_mode"] not in _DTYPES:
        return f"weights in {row['gemm_quant_mode']}"
    return ""


def _question(row: dict[str, str]) -> Serving:
    model, ranks = _MODELS[row["model_path"]], int(row["tp_size"])
    dp, ep = (int(row[name] or 1) or 1 for name in ("attention_dp_size", "moe_ep_size"))
    if model != "deepseek-v3":
        dp = ep = 1
    tp = ranks // dp if dp <= ranks else ranks
    batch = _concurrency(row["silicon_data_source"]) or int(row["batch_size"]) * dp
    return Serving(
        model=model,
        board=_BOARDS[row["system"]],
        tp=tp,
        batch=batch,
        given=int(row["isl"]),
        made=int(row["osl"]),
        dp=dp,
        ep=ep,
        dtype=_DTYPES[row["gemm_quant_mode"]],
    )


def _concurrency(source: str) -> int | None:
    for part in source.split(";"):
        name, _, value = part.strip().partition("=")
        if name == "silicon_concurrency":
            return int(value)
    return None


def predict_points(limit: int | None = None) -> tuple[list[Point], Counter[str]]:
    """Predict measured rows, and return them as points. With ``limit``, at most that many rows are
    predicted, spread evenly. Also return how many rows were excluded, by reason.

    Raises:
        NoData: the measurements are not installed.
    """
    rows, excluded = predictable_rows()
    if limit is not None and len(rows) > limit:
        rows = [rows[i] for i in np.linspace(0, len(rows) - 1, limit).astype(int)]
    points = []
    for row, question in rows:
        try:
            report = predict_serving(question)
        except PerfError as err:
            excluded[_kind(str(err))] += 1
            continue
        points.append(
            Point(
                (question.model, question.board, row["backend"]),
                {time: float(row[f"silicon_{time}_ms"]) for time in TIMES},
                {"ttft": report.ttft_ms, "tpot": report.tpot_ms},
                {
                    "ttft": report.prefill.half_width_us / 1e3,
                    "tpot": report.decode.half_width_us / 1e3,
                },
                {"ttft": report.ttft_ends, "tpot": report.tpot_ends},
            )
        )
    return points, excluded


def _kind(message: str) -> str:
    if " must be one of " in message:
        return "more GPUs than a node has"
    return "more memory than a rank has" if " needs " in message else message


def fit(points: Iterable[Point]) -> Bands:
    """Fit the factors so that 90 % of the points of each group are inside the interval.

    All groups have equal weight. The number of points in a group reflects which runs were
    published, not what users run.
    """
    groups = _group_by(points, lambda point: point.group)
    if not groups:
        raise NoData("no measured serving point to fit")
    bands = {}
    for time in TIMES:
        low, high = [], []
        for members in groups.values():
            measured = np.array([point.measured[time] for point in members])
            ends = [point.ends[time] for point in members]
            low.append(np.quantile(measured / [end.least for end in ends], _TAIL))
            high.append(np.quantile(measured / [end.most for end in ends], 1 - _TAIL))
        bands[time] = Band(float(min(low)), float(max(high)))
    source = f"{measurements.PACKAGE} {measurements.VERSION}, {_FILE}"
    return Bands(bands["ttft"], bands["tpot"], sum(map(len, groups.values())), source)


def validate(points: list[Point]) -> list[Row]:
    """Compare measured serving points with their predictions; return one row for each group and for
    each of TTFT and TPOT.
    """
    points_by_model = _group_by(points, lambda point: point.model_and_board)
    bands_by_model = {
        key: fit(point for point in points if point.model_and_board != key)
        for key in points_by_model
        if len(points_by_model) > 1
    }
    rows = []
    for group, members in sorted(_group_by(points, lambda point: point.group).items()):
        bands = bands_by_model.get(members[0].model_and_board)
        for time in TIMES:
            measured = np.array([point.measured[time] for point in members])
            predicted = np.array([point.predicted[time] for point in members])
            half = np.array([point.half[time] for point in members])
            inside = [p.is_inside(time, getattr(bands, time)) for p in members if bands]
            rows.append(
                Row(
                    group,
                    time,
                    len(members),
                    float(100 * np.abs(predicted / measured - 1).mean()),
                    float(np.exp(np.log(measured / predicted).mean())),
                    float(100 * (np.abs(measured - predicted) <= half).mean()),
                    float(100 * np.mean(inside)) if inside else None,
                )
            )
    return rows


def _group_by(points: Iterable[Point], key: Callable[[Point], Key]) -> dict[Key, list[Point]]:
    groups: dict[Key, list[Point]] = defaultdict(list)
    for point in points:
        groups[key(point)].append(point)
    return groups
