"""Converts plain values to dataclasses, strictly: the types of the fields are the schema.

A value that is missing, unknown or of another type is an error that names its place. A field
with the metadata ``AMONG_OTHERS`` is a document whose values are stored among those of the other
fields.
"""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, Protocol, Self, TypeVar, get_args, get_origin, get_type_hints

_AMONG_OTHERS: Final = "among_others"
AMONG_OTHERS: Final = types.MappingProxyType({_AMONG_OTHERS: True})
Value = TypeVar("Value")


class DocumentError(ValueError):
    """A document does not have exactly the fields of its class, or has another protocol version."""


class Separable(Protocol):
    """The interface of classes whose fields a document stores directly among its other entries, not
    in a nested document.

    A field whose type is such a class has the metadata ``AMONG_OTHERS``.
    """

    @classmethod
    def split(cls, entry: Mapping[str, Any]) -> tuple[dict[str, Any], Self]:
        """Separate the fields of this class from a document.

        Returns the document's other entries, and an instance of this class created from its
        fields. Raises ValueError.
        """


def read(kind: type[Value], document: object, where: str) -> Value:
    """Create a value of type ``kind`` from the output of ``dataclasses.asdict``. ``where`` is the
    name of the value in error messages.

    Raises:
        DocumentError: a field is missing, unknown or of another type; the message names the field.
    """
    if is_dataclass(kind):
        return _read_fields(kind, document, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(document, list | tuple):
        return _read_items(arguments, document, where)  # type: ignore[return-value]
    if origin is dict and isinstance(document, dict):
        names = [read(arguments[0], name, where) for name in document]
        values = [read(arguments[1], document[name], f"{where}.{name}") for name in document]
        return dict(zip(names, values, strict=True))  # type: ignore[return-value]
    if origin is types.UnionType and document is None and type(None) in arguments:
        return None  # type: ignore[return-value]
    if type(document) is kind or (origin is types.UnionType and type(document) in arguments):
        return document  # type: ignore[return-value]
    raise DocumentError(f"{where} is not {kind}")


def _read_items(
    kinds: tuple[Any, ...], document: list[object] | tuple[object, ...], where: str
) -> tuple[object, ...]:
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(document)
    if len(kinds) != len(document):
        raise DocumentError(f"{where} has {len(document)} items instead of {len(kinds)}")
    items = enumerate(zip(kinds, document, strict=True))
    return tuple(read(kind, item, f"{where}[{index}]") for index, (kind, item) in items)


def _read_fields(kind: type[Value], document: object, where: str) -> Value:
    hashable: Any = kind
    hints, parts = _hints(hashable)
    separated: dict[str, Separable] = {}
    if isinstance(document, dict):
        for name, part in parts.items():
            document, separated[name] = _split(part, document, where)
    if not isinstance(document, dict) or set(document) != set(hints):
        description = sorted(document) if isinstance(document, dict) else type(document).__name__
        raise DocumentError(f"{where} has the fields {description}, not {sorted(hints)}")
    own = {name: read(hint, document[name], f"{where}.{name}") for name, hint in hints.items()}
    return kind(**own, **separated)


def _split(
    part: type[Separable], document: dict[str, Any], where: str
) -> tuple[dict[str, Any], Separable]:
    try:
        return part.split(document)
    except ValueError as err:
        raise DocumentError(f"{where}.{err}") from err


@cache
def _hints(kind: Any) -> tuple[Mapping[str, Any], Mapping[str, type[Separable]]]:
    """Return the types of a class's fields, and the types of those fields whose values are stored
    among the others.
    """
    hints = get_type_hints(kind)
    own: dict[str, Any] = {}
    parts: dict[str, type[Separable]] = {}
    for field in fields(kind):
        (parts if field.metadata.get(_AMONG_OTHERS) else own)[field.name] = hints[field.name]
    return types.MappingProxyType(own), types.MappingProxyType(parts)
