"""Lists the differences between two recordings: statuses and values, counted and grouped."""

import json
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.silicon.driver import maps

SHOWN = 4
"""Examples of each kind of difference that are printed."""


def read(path: Path, group: str) -> dict[str, Any] | None:
    """Return a group's answers in a recording; None: it has none."""
    with tarfile.open(path) as archive:
        try:
            member = archive.extractfile(f"{group}.json")
        except KeyError:
            return None
        assert member is not None
        found: dict[str, Any] = json.load(member)
        return found


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the parts of an answer: each value of a table, each call of a sequence."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, (*path, name))
    elif isinstance(value, list) and value and all(isinstance(one, list) for one in value):
        for i, one in enumerate(value):
            yield (*path, str(i)), one
    else:
        yield path, value


def pairs(first: Any, second: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the parts of two answers side by side."""
    one, two = dict(leaves(first)), dict(leaves(second))
    for path in [*one, *(path for path in two if path not in one)]:
        yield path, one.get(path, "absent"), two.get(path, "absent")


def kind_of(group: str, question: str, path: tuple[str, ...], one: Any, two: Any) -> str:
    """Return under which heading a difference is listed."""
    if group == "maps":
        return f"{question.split('/')[0]} {one} {two}"
    if group == "sequences" and isinstance(one, list) and isinstance(two, list):
        what = "status" if one[1] != two[1] else "value"
        subject = question.split(" ")[0]
        return f"{subject}: {one[0]} {what} {one[1]} {two[1]}"
    if group == "facts":
        return f"{question.split('/')[0]} {path[0].split(' ')[0] if path else ''}"
    return question.split(" ")[0]


def compare_maps(first: dict[str, Any], second: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the differences of statuses of tensor maps, with the arguments."""
    for question in first:
        if question not in second or isinstance(first[question], str):
            continue
        given = maps.arguments_of(question)
        for arguments, one, two in zip(given, first[question], second[question], strict=False):
            if one != two:
                yield kind_of("maps", question, (), one, two), json.dumps(arguments)


def differences(
    group: str, first: dict[str, Any], second: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each difference in a group."""
    if group == "maps":
        yield from compare_maps(first, second)
        return
    for question, answer in first.items():
        if question not in second:
            continue
        for path, one, two in pairs(answer, second[question]):
            if one != two:
                where = " ".join((question, *path))
                yield kind_of(group, question, path, one, two), f"{where}: {one} | {two}"


def count(group: str, answers: dict[str, Any], other: dict[str, Any]) -> int:
    """Return how many answers are in both recordings."""
    both = [question for question in answers if question in other]
    if group == "maps":
        return sum(len(answers[one]) for one in both)
    return sum(1 for one in both for _ in leaves(answers[one]))


def main(one: Path, two: Path, chosen: list[str], is_long: bool) -> int:
    """Print each kind of difference with its number and examples; return 1 if there is any."""
    total = 0
    for group in chosen:
        first, second = read(one, group), read(two, group)
        if first is None or second is None:
            print(f"{group}: not in both recordings", file=sys.stderr)
            continue
        kinds: Counter[str] = Counter()
        examples: defaultdict[str, list[str]] = defaultdict(list)
        for kind, text in differences(group, first, second):
            kinds[kind] += 1
            examples[kind].append(text)
        total += kinds.total()
        print(f"{group}: {count(group, first, second)} answers, {kinds.total()} differ")
        for kind, number in kinds.most_common():
            print(f"  {number:6} {kind}")
            for text in examples[kind][: None if is_long else SHOWN]:
                print(f"           {text[:400]}")
    return 1 if total else 0
