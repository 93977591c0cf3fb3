"""The report of ``tessera perf run``. It lists single launches, or groups of equal launches on
request.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from typing import Any, Final

from drawing import terminal_causes
from drawing.documents import Figure
from drawing.terminal import Line
from facts.wording import count_of
from vgpu_sim.hal.observe.modelled_report import (
    ModelledLaunches,
    ModelledOrder,
    ModelledSummary,
    ModelledTransfers,
    Part,
    RefusedRecord,
    parse_part,
)
from vgpu_sim.kernel_names.title import brief_titles
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.kernels import Chip, Counts, Estimate, estimate, page
from vgpu_sim.perf.kernels.accuracy import STATEMENT
from vgpu_sim.perf.kernels.copies import Way
from vgpu_sim.records import dataclass

_OVER_LINKS: Final = (Way.H2D.value, Way.D2H.value, Way.P2P.value)
_MOST_LINES: Final = 64  # most launches printed one by one


@dataclass(slots=True)
class Context:
    """What a context reported when it ended. A refused row is None: the order of launches counts
    it.
    """

    rows: list[ModelledLaunches | None] = field(default_factory=list)
    order: list[tuple[int, float]] = field(default_factory=list)
    transfers: list[tuple[str, float, float, int]] = field(default_factory=list)
    summaries: list[ModelledSummary] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    end: str = ""  # why the worker ended, if it reported that


@dataclass(slots=True)
class RunEvents:
    """The reports of a run's contexts, keyed by the process that served each context."""

    contexts: dict[object, Context] = field(default_factory=dict)

    def add_event(self, event: dict[str, Any]) -> None:
        """Store one event that gpud sent. A part of a report that is not valid is stored as
        refused.
        """
        name = event.get("event")
        if name not in ("modelled", "context_started", "fault", "worker_failed"):
            return
        context = self.contexts.setdefault(event.get("pid"), Context())
        if name == "modelled":
            _store(context, parse_part(event))
        elif name != "context_started":
            context.end = str(event.get("message", ""))

    @property
    def summaries(self) -> list[ModelledSummary]:
        """The summaries that all contexts have sent."""
        return [summary for context in self.contexts.values() for summary in context.summaries]

    def close(self, live: Collection[object]) -> None:
        """Store as refused the reports that contexts did not send. ``live`` are the processes of
        the contexts that are still alive. A context sends its summary last.
        """
        for pid in live:
            self.contexts.setdefault(pid, Context())
        for pid, context in self.contexts.items():
            if context.summaries or any(record.record == "summary" for record in context.refused):
                continue
            reason = context.end or "the context ended without a report"
            if pid in live:
                reason = "still running when this stopped listening"
            context.refused.append(RefusedRecord("report", "", reason))


def _store(context: Context, part: Part) -> None:
    match part:
        case ModelledSummary():
            context.summaries.append(part)
        case ModelledOrder():
            context.order += part.launches
        case ModelledTransfers():
            context.transfers += part.transfers
        case ModelledLaunches():
            context.rows.append(part)
        case RefusedRecord():
            context.refused.append(part)
            if part.record == "launches":
                context.rows.append(None)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the report: launches of a kernel with equal shape, arguments and counts.

    ``estimate`` is None if the launches have no counts. ``context`` numbers the contexts from 0.
    ``kernel`` is the kernel's title without its parameters, unless another kernel has the same.
    """

    context: int
    launches: ModelledLaunches
    estimate: Estimate | None
    kernel: str

    @property
    def is_bound(self) -> bool:
        """True if the time of each launch is a lower bound."""
        return self.estimate is None or self.estimate.is_bound

    @property
    def launch_us(self) -> float:
        """The time of one launch in microseconds."""
        return self.launches.us / max(1, self.launches.launches)

    @property
    def shape(self) -> str:
        """The grid and the block of the launches as text."""
        launches = self.launches
        return (
            "x".join(map(str, launches.grid)) + " blocks of " + "x".join(map(str, launches.block))
        )

    @property
    def name(self) -> str:
        """The name of the row: kernel, arguments and shape as text."""
        return f"{self.call} {self.shape}"

    @property
    def call(self) -> str:
        """The kernel and its arguments as text."""
        return f"{self.kernel}({self.launches.arguments})"


@dataclass(frozen=True, slots=True)
class CopySpan:
    """A copy or fill of a context, with its start and duration in microseconds."""

    context: int
    way: str
    start_us: float
    us: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a run on one board.

    ``rows`` are those of all contexts. ``launches`` are pairs of row and start time, in order of
    start. ``copies`` are single copies; a context lists its first 6,400. ``refused`` are pairs of
    context and record: what the report lacks.
    """

    chip: Chip
    summaries: Sequence[ModelledSummary]
    rows: Sequence[Row]
    launches: Sequence[tuple[Row, float]]
    copies: Sequence[CopySpan] = ()
    refused: Sequence[tuple[int, RefusedRecord]] = ()


def report_of(chip: Chip, events: RunEvents) -> Report:
    """Return the report of a run: predict each launch's time from the counts that the contexts
    reported.
    """
    every = [row for context in events.contexts.values() for row in context.rows if row is not None]
    briefs = brief_titles({row.kernel for row in every})
    rows: list[Row] = []
    launches: list[tuple[Row, float]] = []
    copies: list[CopySpan] = []
    refused: list[tuple[int, RefusedRecord]] = []
    for number, context in enumerate(events.contexts.values()):
        refused += [(number, record) for record in context.refused]
        own: list[Row | None] = []
        for row_launches in context.rows:
            predicted = _estimate(chip, row_launches) if row_launches is not None else None
            if isinstance(predicted, RefusedRecord):
                refused.append((number, predicted))
                predicted = None
            own.append(
                Row(number, row_launches, predicted, briefs[row_launches.kernel])
                if row_launches is not None
                else None
            )
        rows += [row for row in own if row is not None]
        for place, at in context.order:
            row = own[place] if place < len(own) else None
            if row is not None:
                launches.append((row, at))
        copies += [CopySpan(number, *transfer) for transfer in context.transfers]
    return Report(chip, events.summaries, rows, launches, copies, refused)


def _estimate(chip: Chip, launches: ModelledLaunches) -> Estimate | RefusedRecord | None:
    try:
        return estimate(chip, Counts.of(launches.counts)) if launches.counts else None
    except PerfError as err:  # a worker reported a launch that the board cannot run
        return RefusedRecord("launches", launches.kernel, str(err))


def lines(report: Report, *, grouped: bool) -> Iterator[str]:
    """Yield the lines of the text report: first the launches, then copies and gaps."""
    chip = report.chip
    chip_facts = f"{chip.sms} multiprocessors, {chip.dram_peak / 1e3:.0f} GB/s"
    yield f"on {chip.board.product} ({chip_facts}), modelled"
    yield f"accuracy: {STATEMENT}"
    yield from _groups(report) if grouped else _launches(report)
    for summary in report.summaries:
        for copy in summary.copies:
            rate = copy.bytes / copy.us / 1e3 if copy.us else 0.0
            yield (
                f"{copy.count:>9} {copy.us:>12.2f} {copy.us / max(1, copy.count):>11.2f}"
                f" {rate:>7.1f} GB/s {'':>10}  [{copy.way}] {copy.bytes} bytes"
            )
        yield (
            f"from first to last {summary.span_us:.2f} us; idle for {summary.gaps_us:.2f} us of it"
            " (time of the host's own work is not included)"
        )
        if summary.left_out:
            further_kinds = count_of(summary.left_out, "launch", "launches")
            yield f"not listed: {further_kinds} of further kinds"
    sharing = sum(
        any(copy.way in _OVER_LINKS for copy in context_summary.copies)
        for context_summary in report.summaries
    )
    if sharing > 1:
        yield (
            f"{sharing} contexts copied over links, each as if alone: none was slowed by another"
            " (tessera perf predict copy --with: what sharing costs)"
        )
    if any(row.is_bound for row in report.rows):
        yield "≥: at least; not all that the launch does was counted"
    yield from _refusals(report)
    if not report.summaries and not report.refused:
        yield "the program created no CUDA context, so there is nothing to report"


def _refusals(report: Report) -> Iterator[str]:
    for context, refusal in report.refused:
        if refusal.record == "report":
            yield f"error: the report of context {context} is not complete: {refusal.reason}"
        else:
            of_kernel = f" of kernel {refusal.kernel}" if refusal.kernel else ""
            yield f"error: refused the record '{refusal.record}'{of_kernel}: {refusal.reason}"


def _launches(report: Report) -> Iterator[str]:
    yield (f"{'launch':>9} {'start us':>12} {'us':>11} {'bound by':>12} {'occupancy':>10}  kernel")
    for number, (row, at) in enumerate(report.launches[:_MOST_LINES], 1):
        yield (
            f"{number:>9} {at:>12.2f} {_time(row.launch_us, row.is_bound)} {_character(row)}"
            f"  {row.name}{_note(row)}"
        )
    unlisted_count = len(report.launches) - _MOST_LINES
    if unlisted_count > 0:
        yield f"{unlisted_count} more launches: --group puts launches together, --json lists all"


def _groups(report: Report) -> Iterator[str]:
    yield (
        f"{'launches':>9} {'total us':>12} {'mean us':>11} {'bound by':>12} {'occupancy':>10}"
        "  kernel"
    )
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        groups.setdefault((row.kernel, row.shape), []).append(row)
    for (kernel, shape), rows in sorted(
        groups.items(), key=lambda one: -sum(row.launches.us for row in one[1])
    ):
        count = sum(row.launches.launches for row in rows)
        us = sum(row.launches.us for row in rows)
        longest = max(rows, key=lambda row: row.launches.us)
        times = [row.launch_us for row in rows]
        between = f", {min(times):.2f} to {max(times):.2f} us" if len(rows) > 1 else ""
        bound = any(row.is_bound for row in rows)
        yield (
            f"{count:>9} {us:>12.2f} {_time(us / max(1, count), bound)} {_character(longest)}"
            f"  {kernel} ({shape}{between}){_note(longest)}"
        )


def _time(us: float, bound: bool) -> str:
    return f"{('≥ ' if bound else '') + f'{us:.2f}':>11}"


def _character(row: Row) -> str:
    estimate, bound, occupancy = row.estimate, "-", "-"
    if estimate is not None:
        resident = estimate.times.occupancy
        share = resident.blocks * resident.warps_per_block / estimate.chip.warps
        bound, occupancy = estimate.bound_by, f"{100 * share:.0f} %"
    return f"{bound:>12} {occupancy:>10}"


def _note(row: Row) -> str:
    return f" ({row.launches.note})" if row.launches.note else ""


def details(report: Report) -> Iterator[str]:
    """For each row, yield the lines that state the causes of its predicted time, and its
    metrics.
    """
    for row in report.rows:
        estimate = row.estimate
        if estimate is None:
            continue
        limiter = estimate.times.occupancy.limiter
        launches = count_of(row.launches.launches, "launch", "launches")
        yield (f"{row.name}: {estimate.us:.2f} us, {launches}; occupancy limited by {limiter}")
        for cause, part in estimate.stack.items():
            yield f"  {cause:28}{part:12.2f} us {100 * part / estimate.us:5.1f} %"
        counts = estimate.counts
        for label, each in (
            ("bytes that bulk copies completed at mbarriers", counts.bulk_bytes),
            ("bytes by addresses of blocks of the cluster", counts.cluster_bytes),
            ("bytes of tensor memory", counts.tensor_memory_bytes),
            ("operations of tensor cores", counts.tensor_operations),
        ):
            if each:
                yield f"  {label:76}{counts.blocks * each:18.2f}"
        for name, value in estimate.metrics().items():
            yield f"  {name:76}{value:18.2f}"


def figures_of(report: Report) -> list[Figure]:
    """Return the drawings for ``--svg`` and ``--html``."""
    return page.figures(report.chip, _plotted(report))


def _plotted(report: Report) -> list[page.PlottedKernel]:
    return [
        page.PlottedKernel(row.name, row.launches.launches, row.launches.us, row.estimate, row.call)
        for row in report.rows
    ]


def drawing_of(report: Report, columns: int) -> Iterator[Line]:
    """Yield the causes of each kernel's time as lines of text; none if no kernel was sampled."""
    stacks = page.stacks_of(_plotted(report))
    if stacks:
        yield "causes of a launch's time (modelled)"
        yield from terminal_causes.draw_stacks(stacks, columns)


def notes_of(report: Report, *, grouped: bool) -> list[str]:
    """Return the paragraphs of the page for ``--html``."""
    chip = report.chip
    where = f"{chip.board.product} ({chip.sms} multiprocessors)"
    return [f"Modelled for {where}.", *lines(report, grouped=grouped)]


def document_of(report: Report) -> dict[str, Any]:
    """Return the document that ``--json`` writes."""
    places = {id(row): place for place, row in enumerate(report.rows)}
    return {
        "modelled": True,
        "board": report.chip.board.name,
        "multiprocessors": report.chip.sms,
        "kernels": [_row(row) for row in report.rows],
        "launches": [
            {
                "row": places[id(row)],
                "kernel": row.launches.kernel,
                "mangled": row.launches.mangled,
                "arguments": row.launches.arguments,
                "context": row.context,
                "start_us": at,
                "us": row.launch_us,
                "at_least": row.is_bound,
            }
            for row, at in report.launches
        ],
        "contexts": [summary.to_json() for summary in report.summaries],
        "refused": [
            {"context": context, **refusal.to_json()} for context, refusal in report.refused
        ],
    }


def _row(row: Row) -> dict[str, Any]:
    launches, estimate = row.launches, row.estimate
    return {
        "context": row.context,
        "kernel": launches.kernel,
        "mangled": launches.mangled,
        "arguments": launches.arguments,
        "grid": launches.grid,
        "block": launches.block,
        "launches": launches.launches,
        "us": launches.us,
        "at_least": row.is_bound,
        "note": launches.note,
        "stack_us": estimate.stack if estimate is not None else {},
        "metrics": estimate.metrics() if estimate is not None else {},
    }
