"""The ``inventory`` document of gpud's administration socket: one type for writer and readers.

``docs/gpud-admin.md`` explains the fields. Reading is strict: what is missing, unknown or of
another type is an error that names where, so that a gpud and an agent that do not fit together say
so at once. PROTOCOL changes whenever a field does.
"""

import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Final, Self, TypeVar, get_args, get_origin, get_type_hints

PROTOCOL: Final = 1


class DocumentError(ValueError):
    """A document that is no inventory of this protocol."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """Whether control groups hold every slice to its share; else why not."""

    enforced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The walls that workers stand behind on this node, by name; empty until they are known.

    ``weak_allowed``: contexts start even where those are not enough (``hal.spawn.is_confined``).
    """

    walls: dict[str, bool]
    weak_allowed: bool

    @property
    def standing(self) -> tuple[str, ...]:
        """Return the names of the walls that stand, in order."""
        return tuple(sorted(name for name, stands in self.walls.items() if stands))


@dataclass(frozen=True, slots=True)
class Budget:
    """Host memory that all slices share."""

    total_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that may use an instance."""

    pod_uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Context:
    """A live context: its worker, its client, and what it has done (CLOCK_MONOTONIC, ns).

    ``running_kernel`` is empty, and ``running_since_ns`` 0, while none runs.
    """

    pid: int
    client_pid: int
    client_uid: int
    pod_uid: str
    memory_bytes: int
    launches: int
    first_launch_ns: int
    last_launch_ns: int
    busy_ns: int
    running_kernel: str
    running_since_ns: int
    sandbox: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance."""

    uuid: str
    profile: str
    start: int
    size: int
    memory_bytes: int
    multiprocessors: int
    memory_used_bytes: int
    socket_dir: str
    admit: bool
    holders: tuple[Holder, ...]
    contexts: tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """A simulated GPU; ``capability`` is what programs see."""

    uuid: str
    index: int
    board: str
    product: str
    memory_bytes: int
    multiprocessors: int
    capability: tuple[int, int]
    health: str
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """One consistent picture of a node."""

    version: str
    libraries_dir: str
    slices_dir: str
    isolation: Isolation
    sandbox: Sandbox
    budget: Budget
    gpus: tuple[Gpu, ...]
    protocol: int = PROTOCOL

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read what ``to_json`` returned, here or elsewhere.

        Raises:
            DocumentError: naming the field that is missing, unknown or of another type.
        """
        if isinstance(document, dict) and document.get("protocol") != PROTOCOL:
            found = document.get("protocol")
            raise DocumentError(f"protocol {found!r} of the inventory, {PROTOCOL} is spoken here")
        return _read(cls, document, "inventory")


Value = TypeVar("Value")


def _read(kind: type[Value], document: object, where: str) -> Value:
    if is_dataclass(kind):
        return _read_fields(kind, document, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(document, list | tuple):
        return _read_items(arguments, document, where)  # type: ignore[return-value]
    if origin is dict and isinstance(document, dict):
        names = [_read(arguments[0], name, where) for name in document]
        values = [_read(arguments[1], document[name], f"{where}.{name}") for name in document]
        return dict(zip(names, values, strict=True))  # type: ignore[return-value]
    if type(document) is kind:
        return document
    raise DocumentError(f"{where} is not {kind}")


def _read_items(
    kinds: tuple[Any, ...], document: list[object] | tuple[object, ...], where: str
) -> tuple[object, ...]:
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(document)
    if len(kinds) != len(document):
        raise DocumentError(f"{where} has {len(document)} items instead of {len(kinds)}")
    items = enumerate(zip(kinds, document, strict=True))
    return tuple(_read(kind, item, f"{where}[{index}]") for index, (kind, item) in items)


def _read_fields(kind: type[Value], document: object, where: str) -> Value:
    hashable: Any = kind
    hints = _hints(hashable)
    if not isinstance(document, dict) or set(document) != set(hints):
        found = sorted(document) if isinstance(document, dict) else type(document).__name__
        raise DocumentError(f"{where} has {found}, not {sorted(hints)}")
    read = {name: _read(hint, document[name], f"{where}.{name}") for name, hint in hints.items()}
    return kind(**read)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return types.MappingProxyType({field.name: hints[field.name] for field in fields(kind)})
