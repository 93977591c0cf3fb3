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
        answers: dict[str, Any] = json.load(member)
        return answers


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the parts of an answer: each value of a table, each call of a sequence."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, (*path, name))
    elif isinstance(value, list) and value and all(isinstance(call, list) for call in value):
        for i, call in enumerate(value):
            yield (*path, str(i)), call
    else:
        yield path, value


def pairs(first: Any, second: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the parts of two answers side by side."""
    first_parts, second_parts = dict(leaves(first)), dict(leaves(second))
    for path in [*first_parts, *(path for path in second_parts if path not in first_parts)]:
        yield path, first_parts.get(path, "absent"), second_parts.get(path, "absent")


def kind_of(
    group: str, question: str, path: tuple[str, ...], first_answer: Any, second_answer: Any
) -> str:
    """Return under which heading a difference is listed."""
    if group == "maps":
        return f"{question.split('/')[0]} {first_answer} {second_answer}"
    if group == "sequences" and isinstance(first_answer, list) and isinstance(second_answer, list):
        field = "status" if first_answer[1] != second_answer[1] else "value"
        subject = question.split(" ")[0]
        return f"{subject}: {first_answer[0]} {field} {first_answer[1]} {second_answer[1]}"
    if group == "facts":
        return f"{question.split('/')[0]} {path[0].split(' ')[0] if path else ''}"
    return question.split(" ")[0]


def compare_maps(first: dict[str, Any], second: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the differences of statuses of tensor maps, with the arguments."""
    for question in first:
        if question not in second or isinstance(first[question], str):
            continue
        argument_sets = maps.arguments_of(question)
        for arguments, first_status, second_status in zip(
            argument_sets, first[question], second[question], strict=False
        ):
            if first_status != second_status:
                yield (
                    kind_of("maps", question, (), first_status, second_status),
                    json.dumps(arguments),
                )


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
        for path, first_answer, second_answer in pairs(answer, second[question]):
            if first_answer != second_answer:
                where = " ".join((question, *path))
                yield (
                    kind_of(group, question, path, first_answer, second_answer),
                    f"{where}: {first_answer} | {second_answer}",
                )


def count(group: str, answers: dict[str, Any], other_answers: dict[str, Any]) -> int:
    """Return how many answers are in both recordings."""
    shared_questions = [question for question in answers if question in other_answers]
    if group == "maps":
        return sum(len(answers[question]) for question in shared_questions)
    return sum(1 for question in shared_questions for _ in leaves(answers[question]))


def main(first_path: Path, second_path: Path, chosen: list[str], is_long: bool) -> int:
    """Print each kind of difference with its number and examples; return 1 if there is any."""
    total = 0
    for group in chosen:
        first, second = read(first_path, group), read(second_path, group)
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
