"""The last minutes of GPUs and slices: a small drawing of each figure, with its extremes."""

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from console.model.history import SPAN_S, DeviceHistory, Figure, Key, Track
from console.model.pods import PodRecord
from console.views import details, faults
from console.views.details import FoundSlice
from console.views.places import describe_place, number_place
from console.views.rollout import format_duration
from drawing.elements import Element
from drawing.sparkline import draw_sparkline
from facts.wording import count_of, format_size
from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1.resource import Gpu
from mig import geometry

MOST_SLICES: Final = 16  # of a page
FRESH_S: Final = 20.0  # a reading that is older is not called the figure of now
_GAP_S: Final = 35.0  # readings further apart are not connected
_SHORTEST_S: Final = 60.0  # that a drawing covers
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over the last minutes. The texts are empty, and ``drawing`` is None, if no reading
    has it; ``now`` alone is empty if the last reading is too old.
    """

    title: str
    drawing: Element | None = None
    least: str = ""
    most: str = ""
    now: str = ""
    covers: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a slice with its curves; ``note`` states why some may have no figure."""

    title: str
    href: str
    curves: tuple[Curve, ...]
    note: str = ""


def of_gpu(history: DeviceHistory, gpu: Gpu, now_s: float) -> Device:
    """Return the curves of a GPU."""
    index, node = str(gpu.spec.index), gpu.spec.node_name
    busy = history.track(node, Key(Figure.GPU_BUSY, index), now_s)
    memory = history.track(node, Key(Figure.GPU_MEMORY, index), now_s)
    total = gpu.status.memory_bytes / _MIB
    curves = (_percentage("Utilisation", busy), _size("Memory in use", memory, total))
    return Device(f"GPU {index}", f"/gpus/{quote(gpu.name, safe='')}", curves, _note(gpu))


def of_slice(
    history: DeviceHistory, found_slice: FoundSlice, now_s: float, within_s: float = SPAN_S
) -> Device:
    """Return the curves of a slice: those of the instance that is at its place, in the last
    ``within_s`` seconds.
    """
    gpu, gpu_slice = found_slice.gpu, found_slice.slice
    is_whole = gpu_slice.profile == geometry.WHOLE
    profile = "" if is_whole else gpu_slice.profile
    number = "" if is_whole else number_place(gpu_slice.place, gpu.spec.board)
    busy, memory = (
        history.track(
            gpu.spec.node_name,
            Key(figure, str(gpu.spec.index), profile, number),
            now_s,
            within_s,
        )
        for figure in (Figure.SLICE_BUSY, Figure.SLICE_MEMORY)
    )
    total = found_slice.memory_bytes / _MIB
    curves = (_percentage("Engine activity", busy), _size("Memory in use", memory, total))
    title = f"{describe_place(gpu_slice.place, gpu.spec.board)} of GPU {gpu.spec.index}"
    return Device(title, f"/slices/{quote(gpu_slice.uuid, safe='')}", curves, _note(gpu))


def of_gpu_and_slices(history: DeviceHistory, gpu: Gpu, now_s: float) -> list[Device]:
    """Return the curves of a GPU, and of the slices that pods hold."""
    held_slices = [found_slice for found_slice in details.slices_of_gpu(gpu) if found_slice.holders]
    return [of_gpu(history, gpu, now_s), *of_slices(history, held_slices, now_s)]


def of_slices(
    history: DeviceHistory,
    found_slices: Iterable[FoundSlice],
    now_s: float,
    within_s: float = SPAN_S,
) -> Sequence[Device]:
    """Return the curves of up to 16 slices in the last ``within_s`` seconds."""
    return [
        of_slice(history, found_slice, now_s, within_s)
        for found_slice in list(found_slices)[:MOST_SLICES]
    ]


def age_of(pod: PodRecord | None, moment: datetime.datetime) -> float:
    """Return how long a pod has been on its node, so that readings that are older are of another
    holder; as long as a history is kept, if that is not known.
    """
    created = parse_timestamp(pod.created) if pod is not None else None
    if pod is None or created is None:
        return SPAN_S
    return (moment - created).total_seconds() - pod.started_after_s


def _note(gpu: Gpu) -> str:
    return "the GPU is off the bus: nothing can be read from it" if faults.is_lost(gpu) else ""


def _percentage(title: str, track: Track) -> Curve:
    return _curve(title, track, 100.0, lambda value: f"{value:.0f} %")


def _size(title: str, track: Track, total_mib: float) -> Curve:
    top = max([total_mib, *(value for _, value in track.points)])
    return _curve(title, track, top, lambda value: format_size(value * _MIB))


def _curve(title: str, track: Track, top: float, write: Callable[[float], str]) -> Curve:
    if not track.points:
        return Curve(title)
    values = [value for _, value in track.points]
    lowest, highest = write(min(values)), write(max(values))
    age, last = track.points[-1]
    latest_text = write(last) if age <= FRESH_S else ""
    first = track.points[0][0]
    span = format_duration(round(first))
    covers = f"{count_of(len(values), 'reading')}{' since' if len(values) > 1 else ''} {span} ago"
    label = f"{title} in the last {span}: {lowest} to {highest}, now {latest_text or 'not known'}"
    span_s = max(first, _SHORTEST_S)
    return Curve(
        title,
        draw_sparkline(track.points, span_s, top, _GAP_S, label),
        lowest,
        highest,
        latest_text,
        covers,
    )
