"""``make mutate``: would the tests notice? A seeded sample of small defects, each tried in turn.

Every mutation is put into a private copy of the tree and the room's tests run against it, the
narrowest first. Printed: each mutation with its line, and per room how many were killed of those that
compile. A survivor is a gap in the tests or an equivalent program; which of the two, a person must
say.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import c_edits
import python_edits
from edits import Edit
from rooms import NOT_MUTATED, ROOMS, Room
from trial import Outcome, Tree, Verdict

ROOT = Path(__file__).parents[2]


def candidates(room: Room) -> list[Edit]:
    """Return every mutation of a room's files, in a fixed order."""
    found: set[Edit] = set()
    for pattern in room.files:
        for path in ROOT.glob(pattern):
            relative = path.relative_to(ROOT)
            if any(part in f"/{relative}" for part in NOT_MUTATED):
                continue
            edits_of = c_edits.edits_of if path.suffix == ".c" else python_edits.edits_of
            found.update(edits_of(relative, path.read_text(encoding="utf-8")))
    return sorted(found)


def sample(rooms: list[Room], count: int, seed: int) -> list[tuple[Room, Edit]]:
    """Draw ``count`` mutations, as many from each room as from any other, kinds mixed."""
    chosen: list[tuple[Room, Edit]] = []
    for index, room in enumerate(rooms):
        share = count // len(rooms) + (index < count % len(rooms))
        edits = candidates(room)
        drawn = random.Random(f"{seed}/{room.name}").sample(edits, min(share, len(edits)))
        chosen += [(room, edit) for edit in drawn]
    random.Random(seed).shuffle(chosen)  # so that an interrupted run has seen every room
    return chosen


def main() -> int:
    """Try a sample; 0 when nothing survived, 1 when something did, 2 when the tests fail anyway."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("-n", type=int, default=55, help="mutations (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tried at a time")
    parser.add_argument("--room", action="append", choices=[room.name for room in ROOMS])
    parser.add_argument(
        "--no-baseline", action="store_true", help="the tests are known to pass without a mutation"
    )
    parser.add_argument("--minutes", type=float, help="begin no mutation after so long")
    parser.add_argument(
        "--narrow", action="store_true", help="run the first stage of a room's tests only"
    )
    options = parser.parse_args()
    rooms = [room for room in ROOMS if not options.room or room.name in options.room]
    if options.narrow:
        rooms = [replace(room, stages=room.stages[:1]) for room in rooms]
    chosen = sample(rooms, options.n, options.seed)
    described = {
        edit: edit.describe((ROOT / edit.path).read_text(encoding="utf-8")) for _, edit in chosen
    }
    counts = {room.name: [0, 0] for room in rooms}
    print(f"{len(chosen)} mutations, seed {options.seed}, {options.jobs} at a time", flush=True)
    with tempfile.TemporaryDirectory(prefix="tessera-mutate-") as scratch:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for job in range(options.jobs):
            trees.put(Tree(ROOT, Path(scratch) / str(job)))

        tree = trees.get()
        # Tests that cannot even be collected would "kill" everything.
        check = tree.is_collected if options.no_baseline else tree.is_sound
        for room in rooms:
            if not check(room):
                print(f"{room.name}: its tests fail without any mutation:", file=sys.stderr)
                print(tree.last_words(), file=sys.stderr)
                return 2
        trees.put(tree)

        end = None if options.minutes is None else time.monotonic() + 60 * options.minutes

        def attempt(room: Room, edit: Edit) -> Outcome | None:
            tree = trees.get()
            try:
                late = end is not None and time.monotonic() > end
                return None if late else tree.attempt(edit, room)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(options.jobs) as pool:
            results = [(room, edit, pool.submit(attempt, room, edit)) for room, edit in chosen]
            for number, (room, edit, result) in enumerate(results, 1):
                outcome = result.result()
                if outcome is None:
                    continue
                if outcome.verdict is not Verdict.INVALID:
                    counts[room.name][0] += outcome.verdict is Verdict.KILLED
                    counts[room.name][1] += 1
                print(
                    f"[{number}/{len(chosen)}] {outcome.seconds:4.0f} s {outcome.verdict:8} {room.name}"
                    f" {described[edit]}",
                    flush=True,
                )
    for name, (killed, tried) in counts.items():
        print(f"  {name:10} {killed}/{tried} killed")
    killed, tried = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"  {'all':10} {killed}/{tried} killed")
    return 0 if killed == tried else 1


if __name__ == "__main__":
    raise SystemExit(main())
