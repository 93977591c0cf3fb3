"""The report of a program whose clock is modelled, in one form for all components that forward it.

A worker sends the report, and a tenant may have taken over the worker. ``parse`` therefore
bounds all values. ``vgpu_sim.perf.kernels.counts`` defines the meaning of the counts; in this
module they are just numbers with names.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final, Self

from vgpu_sim.records import dataclass

WALL: Final = "wall"
MODELLED: Final = "modelled"
CLOCKS: Final = (WALL, MODELLED)
# Kinds of launches in a worker's report: launches of a kind are equal in everything reported.
MOST_ROWS: Final = 128
MOST_PARTS: Final = 32  # messages that list launches in order
LISTED_IN_PART: Final = 400  # launches per message
TRANSFERS_IN_PART: Final = 200  # copies per message
_MOST_COUNTS: Final = 64
_MOST_NAME: Final = 48
_MOST_TEXT: Final = 256
MOST_MANGLED: Final = 1024
_MOST: Final = 1e18
_MOST_INTEGER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ModelledLaunches:
    """Launches of one kernel that have the same shape, arguments and counts, and therefore the same
    time: how many they are, and their total time in microseconds.

    ``counts`` are per launch; if they are unknown, ``counts`` is empty and ``note`` has the
    reason. ``arguments`` are values as text; an address is shown as asterisks. ``kernel`` is the
    kernel's title (``vgpu_sim.kernel_names``), and ``mangled`` its name in the module.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    launches: int
    us: float
    counts: Mapping[str, float]
    note: str = ""
    arguments: str = ""
    mangled: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return these launches as a dictionary of their fields."""
        return asdict(self)

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse launches from an untrusted document in the form of ``to_json``. Raises ValueError,
        which names the invalid field.
        """
        if not isinstance(document, dict):
            raise ValueError("modelled launches must be an object")
        counts = document.get("counts")
        if not isinstance(counts, dict) or len(counts) > _MOST_COUNTS:
            raise ValueError(f"'counts' must be an object with at most {_MOST_COUNTS} fields")
        return cls(
            _text(document, "kernel", 128),
            _shape(document, "grid"),
            _shape(document, "block"),
            _integer(document, "launches"),
            _number(document.get("us"), "us"),
            {
                _name(name): _number(value, f"the count {_name(name)}")
                for name, value in counts.items()
            },
            _text(document, "note", _MOST_TEXT),
            _text(document, "arguments", _MOST_TEXT),
            _text({"mangled": "", **document}, "mangled", MOST_MANGLED),
        )


@dataclass(frozen=True, slots=True)
class ModelledOrder:
    """The launches in the order in which they ended.

    ``launches`` has for each launch its index in the list of ``ModelledLaunches``, and its start
    in microseconds since the context's first request.
    """

    launches: tuple[tuple[int, float], ...]

    def to_json(self) -> dict[str, Any]:
        """Return this order of launches as a dictionary of its fields."""
        return asdict(self)

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse an order of launches from an untrusted document in the form of ``to_json``. Raises
        ValueError, which names the invalid field.
        """
        rows = document.get("launches") if isinstance(document, dict) else None
        if not isinstance(rows, list | tuple) or len(rows) > LISTED_IN_PART:
            raise ValueError(f"'launches' must be a list of at most {LISTED_IN_PART} launches")
        launches = []
        for row in rows:
            if not isinstance(row, list | tuple) or len(row) != 2:
                raise ValueError("each launch must be a pair of row and time")
            place = _integer({"row": row[0]}, "row")
            if place >= MOST_ROWS:
                raise ValueError(f"the row of a launch must be below {MOST_ROWS}")
            launches.append((place, _number(row[1], "start_us")))
        return cls(tuple(launches))


@dataclass(frozen=True, slots=True)
class ModelledTransfers:
    """Single copies and fills, in the order in which they were issued.

    Each is a direction (as in ``ModelledCopies``), the start in microseconds since the context's
    first request, the duration in microseconds, and the number of bytes.
    """

    transfers: tuple[tuple[str, float, float, int], ...]

    def to_json(self) -> dict[str, Any]:
        """Return these copies as a dictionary of their fields."""
        return asdict(self)

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse copies from an untrusted document in the form of ``to_json``. Raises ValueError,
        which names the invalid field.
        """
        rows = document.get("transfers") if isinstance(document, dict) else None
        if not isinstance(rows, list | tuple) or len(rows) > TRANSFERS_IN_PART:
            raise ValueError(f"'transfers' must be a list of at most {TRANSFERS_IN_PART} copies")
        copies = []
        for row in rows:
            if not isinstance(row, list | tuple) or len(row) != 4:
                raise ValueError("each copy must have a direction, a start, a duration and bytes")
            fields = {"way": row[0], "bytes": row[3]}
            start_us, duration_us = _number(row[1], "start_us"), _number(row[2], "us")
            direction = _text(fields, "way", 16)
            copies.append((direction, start_us, duration_us, _integer(fields, "bytes")))
        return cls(tuple(copies))


@dataclass(frozen=True, slots=True)
class ModelledCopies:
    """Total of the copies or fills in one direction (``HtoD``, ``DtoH``, ``DtoD``, ``PtoP``,
    ``memset``).
    """

    way: str
    count: int
    bytes: int
    us: float


@dataclass(frozen=True, slots=True)
class ModelledSummary:
    """Totals of a context: its copies, the time from its first to its last request, the idle gaps
    in that time, and the number of launches that the report leaves out.
    """

    copies: tuple[ModelledCopies, ...]
    span_us: float
    gaps_us: float
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """Return this summary as a dictionary of its fields."""
        return asdict(self)

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse a summary from an untrusted document in the form of ``to_json``. Raises ValueError,
        which names the invalid field.
        """
        if not isinstance(document, dict):
            raise ValueError("a modelled summary must be an object")
        rows = document.get("copies")
        if not isinstance(rows, list) or len(rows) > _MOST_COUNTS:
            raise ValueError(f"'copies' must be a list of at most {_MOST_COUNTS} rows")
        return cls(
            tuple(
                ModelledCopies(
                    _text(row, "way", 16),
                    _integer(row, "count"),
                    _integer(row, "bytes"),
                    _number(row.get("us"), "us"),
                )
                for row in rows
                if isinstance(row, dict)
            ),
            _number(document.get("span_us"), "span_us"),
            _number(document.get("gaps_us"), "gaps_us"),
            _integer(document, "left_out"),
        )


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A part of a report that was not accepted: its kind (``launches``, ``order``, ``transfers``,
    ``summary``, or ``report`` for all that a context should have sent), the kernel that it names,
    and the reason.
    """

    record: str
    kernel: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return this record as a dictionary of its fields."""
        return asdict(self)

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse a refused record from an untrusted document in the form of ``to_json``. Raises
        ValueError, which names the invalid field.
        """
        if not isinstance(document, dict):
            raise ValueError("a refused record must be an object")
        return cls(
            _text(document, "record", 16),
            _text(document, "kernel", 128),
            _text(document, "reason", _MOST_TEXT),
        )


def kind_of(part: "Part") -> str:
    """Return the name of a part's kind, which is its field in a message."""
    return next(kind for kind, part_type in PARTS.items() if isinstance(part, part_type))


def parse_part(message: Mapping[str, object]) -> "Part":
    """Parse one part of a report, which is in the field of ``message`` with the name of its kind. A
    part that is not valid becomes a refused record, so that it is reported instead of lost.
    """
    kind = next((name for name in PARTS if name in message), "")
    try:
        if not kind:
            raise ValueError(f"a part of a report must be one of: {', '.join(PARTS)}")
        return PARTS[kind].parse(message[kind])
    except (ValueError, AttributeError, TypeError) as err:
        part = message.get(kind)
        kernel = part.get("kernel") if isinstance(part, dict) else None
        name = kernel if isinstance(kernel, str) else ""
        return RefusedRecord(kind or "unknown", _printable(name[:128]), str(err)[:_MOST_TEXT])


Part = ModelledLaunches | ModelledOrder | ModelledTransfers | ModelledSummary | RefusedRecord
PARTS: Final[Mapping[str, type[Part]]] = MappingProxyType(
    {
        "summary": ModelledSummary,
        "order": ModelledOrder,
        "transfers": ModelledTransfers,
        "refused": RefusedRecord,
        "launches": ModelledLaunches,
    }
)


def _number(value: object, label: str) -> float:
    if type(value) not in (int, float) or not isinstance(value, int | float):
        raise ValueError(f"{label} is not a number")
    if not math.isfinite(value) or not 0 <= value <= _MOST:
        raise ValueError(f"{label} is out of range: {value:g}")
    return float(value)


def _integer(document: dict[str, Any], name: str) -> int:
    value = document.get(name)
    if type(value) is not int or not 0 <= value <= _MOST_INTEGER:
        raise ValueError(f"{name} must be an integer from 0 to {_MOST_INTEGER}")
    return value


def _text(document: dict[str, Any], name: str, max_characters: int) -> str:
    value = document.get(name)
    if not isinstance(value, str) or len(value) > max_characters:
        raise ValueError(f"{name} must be a text of at most {max_characters} characters")
    return _printable(value)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _name(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_NAME or not value.isidentifier():
        raise ValueError(
            f"the name of a count must be an identifier of at most {_MOST_NAME} characters"
        )
    return value


def _shape(document: dict[str, Any], name: str) -> tuple[int, int, int]:
    value = document.get(name)
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise ValueError(f"{name} must be a list of three integers")
    x, y, z = (_integer({name: part}, name) for part in value)
    return x, y, z
