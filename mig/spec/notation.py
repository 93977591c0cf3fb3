"""The notation of slices in one line of text.

    instance  = profile "@" start          3g.40gb@4
              | narrow "@" start "." inner 1c.3g.40gb@4.1: in the GPU instance at 4, slice 1
    request   = [count "x"] profile        2x2g.20gb
              | [count "x"] narrow         2x1c.3g.40gb
    instances = instance *("," instance)
    requests  = request *("," request)

Text may come from a pod's annotation or a command line: its length is limited before it is
parsed, and nothing is stripped or guessed. Every failure is a SpecError that names the item and
the remedy.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from mig.errors import SpecError, UnknownProfileError
from mig.geometry import Board, ComputePlace, DeviceProfile, Instance, Profile, naming

MAX_TEXT_LENGTH = 4096
MAX_REQUESTS = 64  # no board holds more than twelve; a larger request is a mistake or an attack

_ENTRY = re.compile(
    r"(?:(?P<count>[0-9]{1,18})x)?(?P<profile>[^@,\s]{1,63})"
    r"(?:@(?P<start>[0-9]{1,18})(?:\.(?P<inner>[0-9]{1,18}))?)?",
    re.ASCII,
)
_FORM = "write a profile such as 2g.20gb, a count 2x2g.20gb or a placed instance 3g.40gb@4"


class Place(NamedTuple):
    """The place of a device: the name of its profile, and where the device starts.

    The place is not checked against a board. ``compute_start`` is None for a device that
    occupies a whole GPU instance.
    """

    profile: str
    start: int
    compute_start: int | None = None

    def __str__(self) -> str:
        return naming.place_name(self.profile, self.start, self.compute_start)


def _entry(board: Board, text: str, position: str) -> Instance | tuple[DeviceProfile, ...]:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise SpecError(position, f"cannot read {excerpt(text)}", _FORM)
    device = _device(board, match["profile"], position)
    if match["start"] is None:
        return (device,) * _count(match["count"], position)
    if match["count"] is not None:
        raise SpecError(
            position,
            f"{excerpt(text)} has a count and a start",
            "list placed instances one by one",
        )
    return _place(board, device, match, position)


def _place(board: Board, device: DeviceProfile, match: re.Match[str], position: str) -> Instance:
    start = int(match["start"])
    inner = None if match["inner"] is None else int(match["inner"])
    if start not in device.profile.starts:
        raise _wrong_start(position, board, device.profile.name, start, device.profile.starts)
    if device.compute is None:
        if inner is not None:
            problem = f"{device} has all of its GPU instance, and no place {inner} in it"
            raise SpecError(position, problem, f"write {device}@{start}")
        return Instance(device.profile, start)
    if inner not in device.compute.starts:
        legal = device.compute.starts
        if inner is None:
            starts = ", ".join(map(str, legal))
            remedy = f"write {device}@{start}.{legal[0]}; legal starts in it: {starts}"
            raise SpecError(position, f"{device} has no place in its GPU instance", remedy)
        raise _wrong_start(position, board, f"{device} in its GPU instance", inner, legal)
    return Instance(device.profile, start, ComputePlace(device.compute, inner))


def _wrong_start(
    position: str, board: Board, subject: str, start: int, legal: tuple[int, ...]
) -> SpecError:
    starts = ", ".join(map(str, legal))
    problem = f"{subject} cannot start at {start}"
    return SpecError(position, problem, f"legal starts on {board.key}: {starts}")


def parse_instance(board: Board, text: str, position: str = "instance") -> Instance:
    """Parse a placed instance, such as "3g.40gb@4". Raises SpecError."""
    parsed_entry = _entry(board, text, position)
    if isinstance(parsed_entry, Instance):
        return parsed_entry
    where = "START" if parsed_entry[0].compute is None else "START.COMPUTE_SLICE"
    raise SpecError(position, f"{excerpt(text)} has no start", f"write {parsed_entry[0]}@{where}")


def format_place(profile: str, start: int, compute_start: int | None = None) -> str:
    """Format a device's place, such as "3g.40gb@4". The place is not checked against a board."""
    return naming.place_name(profile, start, compute_start)


def parse_places(text: str) -> tuple[Place, ...]:
    """Parse a list of places such as "1c.3g.40gb@4.1,1g.10gb@0"; keep their order.

    The result is empty if the text is empty. The places are not checked against a board. Raises
    SpecError.
    """
    places = []
    for position, item in _items(text):
        match = _ENTRY.fullmatch(item)
        if match is None or match["count"] is not None or match["start"] is None:
            raise SpecError(position, f"cannot read {excerpt(item)}", "write 3g.40gb@4")
        inner = None if match["inner"] is None else int(match["inner"])
        places.append(Place(match["profile"], int(match["start"]), inner))
    return tuple(places)


def format_places(places: Iterable[Place]) -> str:
    """Format places as one line of text; ``parse_places`` is the inverse."""
    return ",".join(map(str, places))


def format_instance(instance: Instance) -> str:
    """Format an instance as "3g.40gb@4" or "1c.3g.40gb@4.1"; ``parse_instance`` is the inverse."""
    return str(instance)


def parse_instances(board: Board, text: str) -> tuple[Instance, ...]:
    """Parse a comma-separated list of placed instances; keep their order.

    The result is empty if the text is empty. The planner, not this function, checks whether the
    instances can exist together. Raises SpecError.
    """
    return tuple(parse_instance(board, item, position) for position, item in _items(text))


def format_instances(instances: Iterable[Instance]) -> str:
    """Format a list of instances; ``parse_instances`` is the inverse."""
    return ",".join(map(format_instance, instances))


def parse_requests(board: Board, text: str) -> tuple[DeviceProfile, ...]:
    """Parse a list of requested devices, such as "2x1c.3g.40gb,1g.10gb", into device profiles.

    The profiles are in the order of the text; a profile with a count is repeated. The result is
    empty if the text is empty. Raises SpecError.
    """
    devices: list[DeviceProfile] = []
    for position, item in _items(text):
        parsed_entry = _entry(board, item, position)
        if isinstance(parsed_entry, Instance):
            raise SpecError(
                position,
                f"{excerpt(item)} names a placement",
                f"request {parsed_entry.device} and let the planner place it",
            )
        devices += parsed_entry
        if len(devices) > MAX_REQUESTS:
            raise SpecError(position, f"more than {MAX_REQUESTS} slices wanted", "request fewer")
    return tuple(devices)


def format_requests(profiles: Iterable[Profile] | Iterable[DeviceProfile]) -> str:
    """Format requested profiles as text; ``parse_requests`` is the inverse.

    Equal profiles that follow each other are written once, with their number.
    """
    runs = (
        (name, sum(1 for _ in run)) for name, run in groupby(profile.name for profile in profiles)
    )
    return ",".join(f"{n}x{name}" if n > 1 else name for name, n in runs)


def _items(text: str) -> list[tuple[str, str]]:
    if len(text) > MAX_TEXT_LENGTH:
        raise SpecError("text", f"{len(text)} characters", f"at most {MAX_TEXT_LENGTH} are read")
    if not text:
        return []
    return [(f"item {number}", item) for number, item in enumerate(text.split(","), start=1)]


def _device(board: Board, name: str, position: str) -> DeviceProfile:
    try:
        return board.device_profile(name)
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
