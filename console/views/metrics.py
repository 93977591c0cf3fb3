"""Metrics: memory of slices from GPU objects, and what one node's exporter has answered."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.model.exporters import Scrape
from console.model.exposition import Series, growth, read_samples
from console.views import faults
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World

SHOWN: Final = 64  # nodes

# What the page shows: the series, its title, its unit, and the factor to that unit.
_OF_GPUS: Final = (
    ("DCGM_FI_DEV_GPU_UTIL", "Utilisation", "%", 1.0),
    ("DCGM_FI_DEV_POWER_USAGE", "Power (modelled)", "W", 1.0),
    ("DCGM_FI_DEV_GPU_TEMP", "Temperature (modelled)", "°C", 1.0),
    ("DCGM_FI_DEV_SM_CLOCK", "Clock (modelled)", "MHz", 1.0),
)
_OF_INSTANCES: Final = (
    ("DCGM_FI_DEV_FB_USED", "Memory used", "MiB", 1.0),
    ("DCGM_FI_DEV_FB_FREE", "Memory free", "MiB", 1.0),
    ("tessera_contexts", "Contexts", "", 1.0),
    ("tessera_kernel_launches_total", "Launches", "", 1.0),
    ("rate of tessera_kernel_launches_total", "Launches per second", "", 1.0),
    ("tessera_kernel_seconds_total", "Time in kernels", "s", 1.0),
    ("tessera_host_to_device_bytes_total", "Copied in", "MiB", 2.0**-20),
    ("rate of tessera_host_to_device_bytes_total", "Copied in", "MiB/s", 2.0**-20),
    ("tessera_device_to_host_bytes_total", "Copied out", "MiB", 2.0**-20),
    ("rate of tessera_device_to_host_bytes_total", "Copied out", "MiB/s", 2.0**-20),
)
_RATE: Final = "rate of "  # a counter's growth per second, between two answers
_LOST: Final = "tessera_gpu_lost"
_LOST_CELL: Final = "lost"
_READINGS: Final = "DCGM_"  # prefix of what is read from the GPU itself
_WANTED: Final = frozenset((_LOST, *(column[0] for column in (*_OF_GPUS, *_OF_INSTANCES))))
_SLICE: Final = ("gpu", "GPU_I_PROFILE", "GPU_I_ID", "GPU_CI_ID")
_INSTANCE_LABELS: Final = (*_SLICE, "namespace", "pod")
_ENGINE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """The memory of one GPU's slices, and how many of these pods or claims hold."""

    gpu: Gpu
    used_bytes: int
    total_bytes: int
    slices: int
    held: int

    @property
    def is_lost(self) -> bool:
        """Return whether the GPU has fallen off the bus, so that its figures are no readings."""
        return faults.is_lost(self.gpu)

    @property
    def share(self) -> float:
        """Return the used part, from 0 to 1."""
        return min(self.used_bytes / self.total_bytes, 1.0) if self.total_bytes else 0.0


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The memory of a node's GPUs."""

    name: str
    rows: tuple[MemoryRow, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """What a GPU object states beside an exporter's figures."""

    health: str
    used_bytes: int = 0
    total_bytes: int = 0
    is_lost: bool = False
    board_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Figures of an exporter; a cell is empty if the exporter gives no value.

    The first ``labels`` columns have texts, the others numbers.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int


def memory(world: World, node: str) -> tuple[tuple[NodeMemory, ...], int]:
    """Return the memory of up to 64 nodes whose names contain ``node``, and how many are left."""
    names = sorted(name for name in world.gpus_by_node() if node in name)
    memories = [NodeMemory(name, memory_of_node(world, name)) for name in names[:SHOWN]]
    return tuple(memories), max(len(names) - SHOWN, 0)


def memory_of_node(world: World, node: str) -> tuple[MemoryRow, ...]:
    """Return the memory of a node's GPUs, by index."""
    gpus = sorted(world.gpus_by_node().get(node, ()), key=lambda gpu: gpu.spec.index)
    return tuple(map(memory_of_gpu, gpus))


def memory_of_gpu(gpu: Gpu) -> MemoryRow:
    """Return the memory of one GPU's slices."""
    sizes: Counter[int] = Counter()
    used = 0
    for gpu_slice in gpu.status.slices:
        # Devices that share a GPU instance share its memory, of which each uses a part.
        sizes[gpu_slice.place.start] = gpu_slice.memory_bytes
        used += gpu_slice.memory_used_bytes
    for claim in gpu.status.claims:
        earlier_bytes = sizes[claim.place.start] if claim.shared else 0
        sizes[claim.place.start] = earlier_bytes + claim.memory_bytes
        used += claim.memory_used_bytes
    claimed = len(gpu.status.claimed)
    held_count = sum(bool(gpu_slice.holders) for gpu_slice in gpu.status.slices) + claimed
    return MemoryRow(gpu, used, sizes.total(), len(gpu.status.slices) + claimed, held_count)


def devices_of(world: World, node: str) -> Mapping[str, Device]:
    """Return what the objects state about the GPUs of a node, by index."""
    return {
        str(row.gpu.spec.index): Device(
            faults.describe_health(row.gpu),
            row.used_bytes,
            row.total_bytes,
            row.is_lost,
            row.gpu.status.memory_bytes,
        )
        for row in memory_of_node(world, node)
    }


def tables(scrape: Scrape, devices: Mapping[str, Device]) -> list[Table]:
    """Return the tables of what an exporter has answered, in Prometheus's text format.

    ``devices`` are the node's GPUs, by index. A GPU that has fallen off the bus has no readings,
    even if an earlier version of the exporter has repeated its last ones.
    """
    series = _add_rates(read_samples(scrape.text, _WANTED), scrape)
    lost = {index for index, device in devices.items() if device.is_lost}
    for labels, value in series.get(_LOST, ()):
        change = lost.add if value else lost.discard
        change(labels.get("gpu", ""))
    answer_tables = []
    columns = [column for column in _OF_GPUS if column[0] in series] or list(
        _OF_GPUS if lost else ()
    )
    if columns:
        answer_tables.append(
            _with_devices(_table("GPUs", columns, ("gpu",), series, lost), devices)
        )
    columns = [column for column in _OF_INSTANCES if column[0] in series]
    if columns:
        answer_tables.append(_table("Instances", columns, _INSTANCE_LABELS, series, lost))
    return answer_tables


def _add_rates(series: Series, scrape: Scrape) -> Series:
    """Add the rates of counters, if there is an earlier answer."""
    if not scrape.earlier:
        return series
    earlier = read_samples(scrape.earlier, _WANTED)
    rates = {}
    for name, *_ in _OF_INSTANCES:
        counter = name.removeprefix(_RATE)
        if name == counter or counter not in series:
            continue
        earlier_values = {
            frozenset(labels.items()): value for labels, value in earlier.get(counter, ())
        }
        rates[name] = [
            (labels, growth(old, value) / scrape.seconds)
            for labels, value in series[counter]
            if (old := earlier_values.get(frozenset(labels.items()))) is not None
        ]
    return {**series, **rates}


def _with_devices(table: Table, devices: Mapping[str, Device]) -> Table:
    """Insert the health and the memory of each GPU behind its index."""
    memory_heads = ("Memory in slices, used of total (GiB)", "Memory of the board (GiB)")
    head = (table.head[0], "Health", *memory_heads, *table.head[1:])
    rows = []
    for index, *cells in table.rows:
        device = devices.get(index)
        memory = _LOST_CELL if cells and cells[0] == _LOST_CELL else ""
        if device is not None and not memory and device.total_bytes:
            memory = f"{device.used_bytes / 2**30:.1f} of {device.total_bytes / 2**30:.1f}"
        board = (
            f"{device.board_bytes / 2**30:.1f}" if device is not None and device.board_bytes else ""
        )
        health = device.health if device is not None else "no GPU object"
        rows.append((index, health, memory, board, *cells))
    return Table(table.title, head, tuple(rows), table.labels + 1)


def _table(
    title: str,
    columns: Sequence[tuple[str, str, str, float]],
    labels: Sequence[str],
    series: Series,
    lost: Collection[str],
) -> Table:
    rows: dict[tuple[str, ...], list[str]] = {}
    if len(labels) == 1:
        rows |= {(index,): [_LOST_CELL] * len(columns) for index in lost}
    for place, (name, _, _, factor) in enumerate(columns):
        is_reading = name.startswith(_READINGS)
        for series_labels, value in series.get(name, ()):
            key = tuple(series_labels.get(label, "") for label in labels)
            cells = rows.setdefault(key, [""] * len(columns))
            is_lost = is_reading and key[0] in lost
            cells[place] = _LOST_CELL if is_lost else _format(value * factor)
    names = {"gpu": "GPU", "GPU_I_PROFILE": "Profile", "GPU_I_ID": "Instance"}
    names["GPU_CI_ID"] = "Compute instance"
    head = [names.get(label, label.capitalize()) for label in labels]
    head += [f"{text} ({unit})" if unit else text for _, text, unit, _ in columns]
    ordered = sorted(rows.items(), key=lambda row: [_by_number(text) for text in row[0]])
    body = tuple((*key, *cells) for key, cells in ordered)
    return Table(title, tuple(head), body[:512], len(labels))


def _by_number(text: str) -> tuple[int, str]:
    """Return a key that sorts 9 before 10."""
    return (int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else -1, text)


def _format(value: float) -> str:
    return f"{value:.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.4g}"


def utilisation(text: str) -> dict[str, list[float]]:
    """Return the activity of the engines that pods have, from 0 to 1, by "namespace/pod"."""
    activities: dict[str, list[float]] = {}
    for labels, value in read_samples(text, (_ENGINE,)).get(_ENGINE, ()):
        if labels.get("pod") and 0 <= value <= 1:
            activities.setdefault(f"{labels.get('namespace', '')}/{labels['pod']}", []).append(
                value
            )
    return activities
