"""The notation of slices in one line of text.

    instance  = profile "@" start          3g.40gb@4
    request   = [count "x"] profile        2x2g.20gb
    instances = instance *("," instance)
    requests  = request *("," request)

Text may come from a pod's annotation or a command line: it is bounded before it is read, and
nothing is stripped or guessed. Every failure is a SpecError that names the item and the remedy.
"""

import re
from collections.abc import Iterable
from itertools import groupby

from mig.errors import IllegalLayoutError, SpecError, UnknownProfileError
from mig.geometry import Board, Instance, Profile, naming

MAX_TEXT_LENGTH = 4096
MAX_REQUESTS = 64  # no board holds more than twelve; a wish above that is a mistake or an attack

_ENTRY = re.compile(
    r"(?:(?P<count>[0-9]{1,18})x)?(?P<profile>[^@,\s]{1,63})(?:@(?P<start>[0-9]{1,18}))?", re.ASCII
)
_FORM = "write a profile such as 2g.20gb, a count 2x2g.20gb or a placed instance 3g.40gb@4"


def parse_entry(
    board: Board, text: str, position: str = "entry"
) -> tuple[Instance] | tuple[Profile, ...]:
    """Read one entry of any form: one placed instance, or one or more profiles.

    Raises SpecError, whose position is the one given.
    """
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise SpecError(position, f"cannot read {excerpt(text)}", _FORM)
    profile = _profile(board, match["profile"], position)
    if match["start"] is None:
        return (profile,) * _count(match["count"], position)
    if match["count"] is not None:
        raise SpecError(
            position,
            f"{excerpt(text)} has a count and a start",
            "list placed instances one by one",
        )
    try:
        return (Instance(profile, int(match["start"])),)
    except IllegalLayoutError as err:
        starts = ", ".join(map(str, profile.starts))
        raise SpecError(
            position,
            f"{profile.name} cannot start at {match['start']}",
            f"legal starts on {board.key}: {starts}",
        ) from err


def parse_instance(board: Board, text: str, position: str = "instance") -> Instance:
    """Read "3g.40gb@4". Raises SpecError."""
    entry = parse_entry(board, text, position)[0]
    if isinstance(entry, Instance):
        return entry
    raise SpecError(position, f"{excerpt(text)} has no start", f"write {entry.name}@START")


def format_place(profile: str, start: int) -> str:
    """Write "3g.40gb@4" from names alone, where there is no board to look them up on."""
    return naming.place_name(profile, start)


def format_places(places: Iterable[tuple[str, int]]) -> str:
    """Write a list of places that ``parse_places`` reads back."""
    return ",".join(format_place(profile, start) for profile, start in places)


def parse_places(text: str) -> tuple[tuple[str, int], ...]:
    """Read "3g.40gb@4,1g.10gb@0" as names and starts, order kept. "" is none.

    Whether a board has such profiles is not asked. Raises SpecError.
    """
    found = []
    for position, item in _items(text):
        match = _ENTRY.fullmatch(item)
        if match is None or match["count"] is not None or match["start"] is None:
            raise SpecError(position, f"cannot read {excerpt(item)}", "write 3g.40gb@4")
        found.append((match["profile"], int(match["start"])))
    return tuple(found)


def format_instance(instance: Instance) -> str:
    """Write "3g.40gb@4", which ``parse_instance`` reads back."""
    return format_place(instance.profile.name, instance.start)


def parse_instances(board: Board, text: str) -> tuple[Instance, ...]:
    """Read a comma-separated list of placed instances, order kept. "" is none.

    Whether they can exist together is the planner's question. Raises SpecError.
    """
    return tuple(parse_instance(board, item, position) for position, item in _items(text))


def format_instances(instances: Iterable[Instance]) -> str:
    """Write a list that ``parse_instances`` reads back."""
    return ",".join(map(format_instance, instances))


def parse_requests(board: Board, text: str) -> tuple[Profile, ...]:
    """Read "2x2g.20gb,1g.10gb" as a multiset of profiles, order kept. "" is none.

    Raises SpecError.
    """
    wanted: list[Profile] = []
    for position, item in _items(text):
        for entry in parse_entry(board, item, position):
            if isinstance(entry, Instance):
                raise SpecError(
                    position,
                    f"{excerpt(item)} names a placement",
                    f"ask for {entry.profile.name} and let the planner place it",
                )
            wanted.append(entry)
        if len(wanted) > MAX_REQUESTS:
            raise SpecError(position, f"more than {MAX_REQUESTS} slices wanted", "ask for fewer")
    return tuple(wanted)


def format_requests(profiles: Iterable[Profile]) -> str:
    """Write profiles so that ``parse_requests`` reads them back; neighbours are counted."""
    runs = ((profile, sum(1 for _ in run)) for profile, run in groupby(profiles))
    return ",".join(f"{n}x{profile.name}" if n > 1 else profile.name for profile, n in runs)


def _items(text: str) -> list[tuple[str, str]]:
    if len(text) > MAX_TEXT_LENGTH:
        raise SpecError("text", f"{len(text)} characters", f"at most {MAX_TEXT_LENGTH} are read")
    if not text:
        return []
    return [(f"item {number}", item) for number, item in enumerate(text.split(","), start=1)]


def _profile(board: Board, name: str, position: str) -> Profile:
    try:
        return board.profile(name)
    except UnknownProfileError as err:
        raise SpecError(
            position,
            f"board {board.key} has no profile {excerpt(name)}",
            f"legal profiles: {', '.join(err.legal)}",
        ) from err


def _count(digits: str | None, position: str) -> int:
    count = 1 if digits is None else int(digits)
    if not 1 <= count <= MAX_REQUESTS:
        raise SpecError(position, f"count {count}", f"write a count from 1 to {MAX_REQUESTS}")
    return count


def excerpt(text: str) -> str:
    """Quote text for a message, cut to 40 characters."""
    return repr(text) if len(text) <= 40 else repr(text[:40]) + "..."
