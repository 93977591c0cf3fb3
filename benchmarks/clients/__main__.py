"""``python -m benchmarks.clients``: run clients' own test suites and record what they find."""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.clients import look_ups, page, summary
from benchmarks.clients.catalogue import CLIENTS
from benchmarks.clients.catalogue.cuda_core import CUDA_BINDINGS
from benchmarks.clients.client import Client
from benchmarks.clients.environment import NotInstalled, versions
from benchmarks.clients.execution import collect, run_file
from benchmarks.clients.outcomes import Outcome
from benchmarks.clients.store import AlreadyRunning, Store
from benchmarks.clients.suite import Suite, open_suite
from benchmarks.on_slice import REPOSITORY
from vgpu_sim.cli import progress

_LOOKS_UP = "from cuda.bindings import driver; driver.cuInit(0)"  # looks up all at its first call


def main() -> int:
    """Exit status: 0 all chosen suites were run, 1 one could not be, 2 wrong arguments, which
    include an ``--only`` that selects no file.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--client", action="append", choices=sorted(CLIENTS), help="default: all")
    parser.add_argument("--resume", action="store_true", help="keep outcomes of the last run")
    parser.add_argument("--sample", type=int, help="run this many tests, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--checkout", type=Path, help="folder with the client's repository")
    parser.add_argument("--only", help="run test files with this text in their names")
    parser.add_argument("--report", action="store_true", help="run nothing: report the last run")
    parser.add_argument("--record", action="store_true", help="record the counts, for the page")
    parser.add_argument(
        "--look-ups", action="store_true", help="count cuda-bindings' driver functions, and end"
    )
    parser.add_argument("--page", action="store_true", help="print docs/clients.md and end")
    options = parser.parse_args()
    if options.page:
        sys.stdout.write(page.render(summary.read_all(), look_ups.read()))
        return 0
    if options.look_ups:
        driver_look_ups = look_ups.find_look_ups(CUDA_BINDINGS, _LOOKS_UP, _commit())
        print(look_ups.describe(driver_look_ups))
        if options.record:
            look_ups.write(driver_look_ups)
        return 0
    failed, selected = False, 0
    for name in options.client or CLIENTS:
        try:
            selected += _run(CLIENTS[name], options)
        except (NotInstalled, AlreadyRunning) as error:
            print(f"{name}: not run: {error}", file=sys.stderr)
            failed = True
    if options.only and not selected and not failed:
        parser.error(f"--only selects test files, and none has {options.only!r} in its name")
    return int(failed)


def _run(client: Client, options: argparse.Namespace) -> int:
    """Run a client's suite, or report its last run; return how many of its files are selected."""
    suite = open_suite(client, options.checkout)
    files = [name for name in suite.test_files() if options.only is None or options.only in name]
    if options.only and not files:
        return 0
    with closing(Store(client)) as store:
        if not options.resume and not options.report:
            store.clear()
        chosen = (
            None
            if options.sample is None or options.report
            else _draw(suite, options.sample, options.seed)
        )
        if not options.report:
            _run_files(suite, store, files, chosen)
        if not options.only:
            _report(client, suite, store, options)
    return len(files)


def _run_files(suite: Suite, store: Store, files: list[str], chosen: list[str] | None) -> None:
    """Run the files of a suite that were not run before, and print what each found."""
    tests = {name: [test for test in chosen or () if test.split("::")[0] == name] for name in files}
    pending_files = [
        file for file in files if not store.has(file) and (chosen is None or tests[file])
    ]
    client = suite.client.name
    with progress.track(client, len(pending_files)) as progress_bar:
        for name in pending_files:
            progress_bar.begin(name)
            begin = time.monotonic()
            only = None if chosen is None else tests[name]
            keep = partial(store.put_part, name)
            run = run_file(suite, name, only, store.part(name), keep)
            store.put(name, list(run.outcomes.values()), _commit())
            progress_bar.advance()
            seconds = time.monotonic() - begin
            print(f"{client}: {name}: {run.count()} in {seconds:.0f} s", flush=True)


def _report(client: Client, suite: Suite, store: Store, options: argparse.Namespace) -> None:
    """Print a client's counts, and record them with ``--record``; other files count as not run."""
    outcomes = list(store.outcomes())
    if options.sample is None:
        missing = [name for name in suite.test_files() if not store.has(name)]
        if missing:
            unrun_tests = [test for test in collect(suite) if test.split("::")[0] in missing]
            outcomes += [
                Outcome(test, "not run", message="the run ended before") for test in unrun_tests
            ]
            print(f"{client.name}: {len(missing)} test files have not been run")
    whole = summary.summarize(
        client,
        outcomes,
        versions(client),
        None if options.sample is None else len(collect(suite)),
        command=_command(client, options),
        tessera=_describe(store.commits()),
        source=suite.source,
        date=datetime.now(UTC).date().isoformat(),
    )
    print(page.section(client, whole))
    if options.record:
        print(f"recorded: {summary.write(whole).relative_to(REPOSITORY)}")


def _draw(suite: Suite, count: int, seed: int) -> list[str]:
    """Draw tests of the suite; the same seed draws the same tests."""
    tests = collect(suite)
    return random.Random(seed).sample(tests, min(count, len(tests)))


def _command(client: Client, options: argparse.Namespace) -> str:
    sample = "" if options.sample is None else f" --sample {options.sample} --seed {options.seed}"
    return f"python -m benchmarks.clients --client {client.name}{sample}"


def _describe(commits: Sequence[str]) -> str:
    """Return the commit of a run, or the first and the last one."""
    return " to ".join(dict.fromkeys((commits[0], commits[-1]))) if commits else _commit()


def _commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
