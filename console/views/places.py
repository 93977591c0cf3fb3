"""The one way in which pages name the place of a slice, and the search for slices.

``1g.10gb@6 (instance 13)`` has the notation of layouts and messages, and the number that
nvidia-smi and DCGM print for the same slice.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from console.views import details
from console.views.details import FoundSlice
from console.views.metrics import Table
from drawing.slices import number_instance
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World
from mig import geometry
from mig.errors import MigError
from mig.spec import Place

SHOWN: Final = 200  # slices of a list
_AT: Final = re.compile(r"(\S+) at (\d+)")
_INSTANCE: Final = re.compile(r"(?:gpu )?instance (\d+)")
LEGEND: Final = (
    "1g.10gb@6 (instance 13): the slice of profile 1g.10gb whose first memory slice is 6, which"
    " nvidia-smi and DCGM number as GPU instance 13"
)


@dataclass(frozen=True, slots=True)
class Query:
    """What a search requests: words, an exact place, and the number of a GPU instance."""

    words: tuple[str, ...] = ()
    place: str = ""
    instance: str = ""


@lru_cache(maxsize=4096)
def describe_place(place: Place, board: str) -> str:
    """Return the place of a slice on a board, with its instance's number."""
    number = number_place(place, board)
    return f"{place} ({number})" if number else str(place)


def read_query(text: str) -> Query:
    """Parse a search: both notations of a place are accepted, and parts of names."""
    text = " ".join(text.lower().replace("(", " ").replace(")", " ").split())
    instance = _INSTANCE.search(text)
    if instance is not None:
        text = text.replace(instance[0], " ", 1)
    words = _AT.sub(r"\1@\2", text).split()
    places = [word for word in words if "@" in word]
    return Query(
        tuple(word for word in words if word not in places),
        places[0] if places else "",
        instance[1] if instance is not None else "",
    )


def find_slices(
    world: World, text: str, namespace: str = "", profile: str = ""
) -> tuple[list[FoundSlice], int]:
    """Return the slices that match a search, and how many more there are.

    With ``profile``, only slices of this profile match.
    """
    query = read_query(text)
    matches = [
        found_slice
        for found_slice in details.every_slice(world)
        if profile in ("", found_slice.slice.profile)
        and _matches(found_slice, query)
        and (not namespace or namespace in _namespaces(found_slice))
    ]
    matches.sort(
        key=lambda found_slice: (
            found_slice.gpu.spec.node_name,
            found_slice.gpu.spec.index,
            found_slice.slice.start,
        )
    )
    return matches[:SHOWN], max(len(matches) - SHOWN, 0)


def name_slices(tables: Iterable[Table], gpus: Sequence[Gpu]) -> list[Table]:
    """Replace the columns of profile and instance of an exporter's table by the place."""
    place_names = {
        (str(gpu.spec.index), *_labels_of(place, gpu.spec.board)): str(place)
        for gpu in gpus
        for place in (gpu_slice.place for gpu_slice in details.entries_of(gpu))
    }
    return [_name(table, place_names) for table in tables]


def pages_of_slices(gpus: Iterable[Gpu]) -> dict[tuple[str, str], str]:
    """Return the UUIDs of slices by the index of the GPU and the place, as tables name it."""
    return {
        (str(gpu.spec.index), str(gpu_slice.place)): gpu_slice.uuid
        for gpu in gpus
        for gpu_slice in details.entries_of(gpu)
    }


def _labels_of(place: Place, board: str) -> tuple[str, str]:
    """Return the profile and the instance in an exporter's labels; a whole GPU has neither."""
    is_whole = place.profile == geometry.WHOLE
    return ("", "") if is_whole else (place.profile, number_place(place, board))


def _name(table: Table, place_names: dict[tuple[str, str, str], str]) -> Table:
    columns = ("Profile", "Instance", "Compute instance")
    if not set(columns) <= set(table.head):
        return table
    first, number, inner = (table.head.index(column) for column in columns)
    rows = []
    for row in table.rows:
        text = f"instance {row[number]}" if row[number] else ""
        text += f", compute instance {row[inner]}" if row[inner] else ""
        place = place_names.get((row[0], row[first], text), row[first])
        name = f"{place} ({text})" if text else place
        rows.append((*row[:first], name, *row[inner + 1 :]))
    head = (*table.head[:first], "Slice", *table.head[inner + 1 :])
    return Table(table.title, head, tuple(rows), table.labels - (inner - first))


@lru_cache(maxsize=4096)
def number_place(place: Place, board: str) -> str:
    """Return the number of the instance at a place, such as "instance 13"; empty if it has none."""
    try:
        return number_instance(geometry.board(board).instance(*place))
    except MigError:
        return ""


def _matches(found_slice: FoundSlice, query: Query) -> bool:
    place = found_slice.slice.place
    if query.place and query.place != str(place).lower():
        return False
    number = number_place(place, found_slice.gpu.spec.board)
    if query.instance and number.partition(",")[0] != f"instance {query.instance}":
        return False
    if not query.words:
        return True
    holders = (f"{h.namespace}/{h.name}" for h in found_slice.holders)
    names = (
        found_slice.slice.uuid,
        str(place),
        found_slice.gpu.name,
        found_slice.gpu.spec.node_name,
    )
    whole = "\n".join((*names, *found_slice.claims, *holders)).lower()
    return all(word in whole for word in query.words)


def _namespaces(found_slice: FoundSlice) -> Iterator[str]:
    yield from (holder.namespace for holder in found_slice.holders)
    yield from (claim.partition("/")[0] for claim in found_slice.claims)
