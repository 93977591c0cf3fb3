"""``make mutate``: would the tests notice? A seeded sample of small defects, each tried in turn.

Every mutation is put into a private copy of the tree and the room's tests run against it, the
narrowest first. Printed: each mutation with its line and the test that noticed it, and per room how
many were killed of those that compile. A survivor is a gap in the tests or an equivalent program, a
time-out a hang or a busy machine; which of the two, a person must say.

A room begins with a *neutral* trial: a comment is added to one of the files to be mutated, and the
tests must pass. Where they do not, they would fail with every mutation, and none is tried.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue

import c_edits
import python_edits
from edits import Edit, neutral
from reach import Reach
from recording import record
from rooms import NOT_MUTATED, ROOMS, Room
from trial import Outcome, Tree, Verdict

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "out" / "reach.json"


def candidates(room: Room) -> list[Edit]:
    """Return every mutation of a room's files, in a fixed order."""
    found: set[Edit] = set()
    for pattern in room.files:
        for path in ROOT.glob(pattern):
            relative = path.relative_to(ROOT)
            if any(part in f"/{relative}" for part in NOT_MUTATED):
                continue
            edits_of = c_edits.edits_of if path.suffix == ".c" else python_edits.edits_of
            found.update(edits_of(relative, _text(relative)))
    return sorted(found)


def sample(rooms: list[Room], count: int, seed: int) -> list[tuple[Room, Edit]]:
    """Draw ``count`` mutations, equally many from each room, of mixed kinds."""
    chosen: list[tuple[Room, Edit]] = []
    for index, room in enumerate(rooms):
        share = count // len(rooms) + (index < count % len(rooms))
        edits = candidates(room)
        drawn = random.Random(f"{seed}/{room.name}").sample(edits, min(share, len(edits)))
        chosen += [(room, edit) for edit in drawn]
    random.Random(seed).shuffle(chosen)  # so that an interrupted run has covered every room
    return chosen


def pick_mutations(rooms: list[Room], texts: list[str]) -> list[tuple[Room, Edit]]:
    """Return every mutation whose description contains one of ``texts``."""
    return [
        (room, edit)
        for room in rooms
        for edit in candidates(room)
        if any(text in _describe(edit) for text in texts)
    ]


def main() -> int:
    """Try a sample; return 0 if no mutation survived, 1 if one did, 2 if tests fail without a
    mutation.
    """
    options = _options()
    rooms = [room for room in ROOMS if not options.room or room.name in options.room]
    reach = Reach.read(RECORD)
    if options.record:
        with tempfile.TemporaryDirectory(prefix="tessera-mutate-") as scratch:
            record(ROOT, Path(scratch), rooms, reach, RECORD)
        return 0
    if options.narrow:
        rooms = [replace(room, stages=room.stages[:1]) for room in rooms]
    if options.only:
        chosen = pick_mutations(rooms, options.only)
        print(f"{len(chosen)} mutations, {options.jobs} at a time", flush=True)
    else:
        chosen = sample(rooms, options.n, options.seed)
        print(f"{len(chosen)} mutations, seed {options.seed}, {options.jobs} at a time", flush=True)
    counts = {room.name: Counter[Verdict]() for room in rooms}
    unsound: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="tessera-mutate-") as scratch:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for job in range(options.jobs):
            trees.put(Tree(ROOT, Path(scratch) / str(job), reach))

        if not options.no_neutral:
            tree = trees.get()
            unsound = {room.name for room in rooms if not _survives_neutral(tree, room, chosen)}
            trees.put(tree)

        end = None if options.minutes is None else time.monotonic() + 60 * options.minutes

        def attempt(room: Room, edit: Edit) -> Outcome | None:
            tree = trees.get()
            try:
                late = end is not None and time.monotonic() > end
                return None if late or room.name in unsound else tree.attempt(edit, room)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(options.jobs) as pool:
            results = [(room, edit, pool.submit(attempt, room, edit)) for room, edit in chosen]
            for number, (room, edit, result) in enumerate(results, 1):
                outcome = result.result()
                if outcome is not None:
                    counts[room.name][outcome.verdict] += 1
                    place = f"[{number}/{len(chosen)}]"
                    print(_line(place, room, _describe(edit), outcome), flush=True)
    for name, verdicts in counts.items():
        print(_summary(name, verdicts))
    everything = sum(counts.values(), Counter())
    print(_summary("all", everything))
    return 2 if unsound else int(everything[Verdict.SURVIVED] > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    default = 5 * len(ROOMS)
    parser.add_argument("-n", type=int, default=default, help="mutations (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tried at a time")
    parser.add_argument("--room", action="append", choices=[room.name for room in ROOMS])
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="of the sample those with TEXT in their line",
    )
    parser.add_argument(
        "--no-neutral", action="store_true", help="the neutral trials are known to survive"
    )
    parser.add_argument(
        "--record", action="store_true", help="note which tests reach which line of C, and end"
    )
    parser.add_argument("--minutes", type=float, help="begin no mutation after so long")
    parser.add_argument(
        "--narrow", action="store_true", help="run the first stage of a room's tests only"
    )
    return parser.parse_args()


def _describe(edit: Edit) -> str:
    return edit.describe(_text(edit.path))


@cache  # the state at the beginning, when the private copies were made
def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _survives_neutral(tree: Tree, room: Room, chosen: list[tuple[Room, Edit]]) -> bool:
    """Return whether the tests pass with a neutral edit of the first file to be mutated."""
    edit = next((edit for other, edit in chosen if other is room), None)
    if edit is None:
        return True
    outcome = tree.attempt(neutral(edit.path, _text(edit.path)), room)
    print(_line("[neutral]", room, str(edit.path), outcome), flush=True)
    if outcome.failure is not None:
        print(f"{room.name}: its tests fail without any mutation:", file=sys.stderr)
        print(outcome.failure.last_words, file=sys.stderr)
    return outcome.verdict is Verdict.SURVIVED


def _line(place: str, room: Room, what: str, outcome: Outcome) -> str:
    by = f" (by {outcome.failure.test})" if outcome.failure else ""
    return f"{place} {outcome.seconds:4.0f} s {outcome.verdict:9} {room.name} {what}{by}"


def _summary(name: str, verdicts: Counter[Verdict]) -> str:
    by_clock = verdicts[Verdict.TIMED_OUT]
    killed = verdicts[Verdict.KILLED] + by_clock
    late = f", {by_clock} of them by a time-out alone" if by_clock else ""
    return f"  {name:10} {killed}/{killed + verdicts[Verdict.SURVIVED]} killed{late}"


if __name__ == "__main__":
    raise SystemExit(main())
