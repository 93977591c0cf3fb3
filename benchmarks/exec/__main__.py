"""``python -m benchmarks.exec [--only NAME] [--json]``: every contest with its goals' verdicts."""

import argparse
import sys

from benchmarks.exec import choice, interpreting, shapes, starts
from benchmarks.exec.catalogue import CONTESTS
from benchmarks.exec.contest import UNCLAMPED
from benchmarks.exec.race import Options, Outcome, race
from benchmarks.exec.results import section, summary
from benchmarks.exec.tensor import large_module
from benchmarks.on_slice import ProgramFailed
from benchmarks.report import Section, document, machine, table
from vgpu_sim.cli import progress

ROUNDS, QUICK_ROUNDS = 15, 3
# Sections without an opponent. Each takes a flag for a trial run.
SECTIONS = {
    module.NAME: module.measure for module in (shapes, starts, interpreting, choice, large_module)
}


def main() -> int:
    """Exit status: 0 all goals met, 1 a goal is missed or could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exec", description=__doc__)
    parser.add_argument("--only", action="append", help="contests, or tags (default: all)")
    parser.add_argument("--rounds", type=int, help=f"of which the best counts (default: {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, few rounds: a trial run")
    parser.add_argument("--no-clamp", action="store_true", help=f"leave out '{UNCLAMPED}'")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--list", action="store_true", help="print the contests and end")
    options = parser.parse_args()
    chosen = [
        contest
        for contest in CONTESTS.values()
        if not options.only or {contest.name, *contest.tags} & set(options.only)
    ]
    valid_names = {
        *CONTESTS,
        *SECTIONS,
        *(tag for contest in CONTESTS.values() for tag in contest.tags),
    }
    if unknown := set(options.only or ()) - valid_names:
        parser.error(
            f"no contest or tag {', '.join(sorted(unknown))}: {', '.join(sorted(valid_names))}"
        )
    if options.list:
        for contest in chosen:
            print(contest.name, *sorted(contest.tags))
        print("\n".join(SECTIONS))
        return 0
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    how = Options(rounds, options.quick, clamp=not options.no_clamp)
    sections, outcomes = [], {}
    versions: dict[str, str] = {}
    chosen_sections = {
        name: SECTIONS[name] for name in SECTIONS if name in (options.only or SECTIONS)
    }
    with progress.track("contests", len(chosen) + len(chosen_sections)) as progress_bar:
        for contest in chosen:
            progress_bar.begin(contest.name)
            try:
                outcomes[contest.name] = outcome = race(contest.name, how)
                versions.update(outcome.versions)
                sections.append(section(contest, outcome, clamp=how.clamp))
            except (ProgramFailed, OSError) as err:
                sections.append(Section(contest.name, skipped=str(err)))
                outcomes[contest.name] = Outcome(missing={})
            progress_bar.advance()
        sections += summary(chosen, outcomes)
        for name, measure in chosen_sections.items():
            progress_bar.begin(name)
            try:
                sections.append(measure(options.quick))
            except (ProgramFailed, OSError) as err:
                sections.append(Section(name, skipped=str(err)))
            progress_bar.advance()
    if options.json:
        print(document(sections))
    else:
        size = "tiny sizes, figures mean nothing; " if options.quick else ""
        print(f"{machine()}\n{size}best of {rounds} rounds")
        print("\n".join(f"{name}: {text}" for name, text in versions.items()))
        print(table(sections))
    verdicts = {row.verdict for part in sections for row in part.rows}
    failed = "MISSED" in verdicts or "NOT MEASURED" in verdicts
    return 1 if failed or any(part.skipped for part in sections) else 0


if __name__ == "__main__":
    sys.exit(main())
