"""The layout document, version v1: which slices a board shall have.

    version: v1
    board: h100-80gb
    instances: ["3g.40gb@4", "2x1g.10gb", "2g.20gb"]

Placed entries stay where they are written; the others are placed by the planner. An empty list is
a legal wish (no slices), a missing one is an error. Unknown fields are errors: a misspelt field
must not be taken for an empty one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mig import geometry
from mig.errors import SpecError, UnknownBoardError
from mig.geometry import Board, Instance, Profile
from mig.spec.notation import MAX_REQUESTS, excerpt, format_instance, format_requests, parse_entry

VERSION = "v1"
_FIELDS = ("version", "board", "instances")


@dataclass(frozen=True, slots=True)
class Layout:
    """A parsed layout document: entries are placed instances or profiles to be placed."""

    board: Board
    entries: tuple[Instance | Profile, ...]

    def to_document(self) -> dict[str, object]:
        """Return the document that ``parse_layout`` reads back as an equal layout."""
        return {
            "version": VERSION,
            "board": self.board.key,
            "instances": [
                format_instance(entry) if isinstance(entry, Instance) else format_requests([entry])
                for entry in self.entries
            ],
        }


def parse_layout(document: object) -> Layout:
    """Read a layout document (a mapping, as JSON or YAML yields it).

    Raises SpecError that names the position ("instances[2]"), the problem and the remedy.
    """
    if not isinstance(document, Mapping):
        raise SpecError("document", f"is {_kind(document)}", "write a mapping")
    _check_version(document)
    unknown = sorted(_show(field) for field in document if field not in _FIELDS)[:8]
    if unknown:
        raise SpecError(
            "document", f"unknown field {', '.join(unknown)}", f"fields: {', '.join(_FIELDS)}"
        )
    board = _board(document)
    return Layout(board, _entries(board, document))


def _check_version(document: Mapping[object, object]) -> None:
    if "version" not in document:
        raise SpecError("version", "is missing", f"write version: {VERSION}")
    if document["version"] != VERSION:
        raise SpecError(
            "version", f"{_show(document['version'])} is not known", f"this release reads {VERSION}"
        )


def _board(document: Mapping[object, object]) -> Board:
    known = f"known boards: {', '.join(geometry.BOARDS)}"
    if "board" not in document:
        raise SpecError("board", "is missing", known)
    key = document["board"]
    if not isinstance(key, str):
        raise SpecError("board", f"is {_kind(key)}", known)
    try:
        return geometry.board(key)
    except UnknownBoardError as err:
        raise SpecError("board", f"unknown board {excerpt(key)}", known) from err


def _entries(board: Board, document: Mapping[object, object]) -> tuple[Instance | Profile, ...]:
    if "instances" not in document:
        raise SpecError("instances", "is missing", "write a list; [] for no slices")
    items = document["instances"]
    if not isinstance(items, list | tuple):
        raise SpecError("instances", f"is {_kind(items)}", "write a list of text")
    entries: list[Instance | Profile] = []
    for index, item in enumerate(items):
        position = f"instances[{index}]"
        if not isinstance(item, str):
            raise SpecError(position, f"is {_kind(item)}", 'write text such as "3g.40gb@4"')
        entries.extend(parse_entry(board, item, position))
        if len(entries) > MAX_REQUESTS:
            raise SpecError(position, f"more than {MAX_REQUESTS} slices", "ask for fewer")
    return tuple(entries)


def _show(value: object) -> str:
    return excerpt(value) if isinstance(value, str) else f"a value {_kind(value)}"


def _kind(value: object) -> str:
    return "empty" if value is None else f"of type {type(value).__name__}"
