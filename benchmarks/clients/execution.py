"""Runs a client's test files under ``tessera run``, one process each.

After a test that ends its process, the rest of the file runs in a new one.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.clients.environment import TESSERA, folder_of, python_of
from benchmarks.clients.outcomes import FileRun, Outcome, read_run
from benchmarks.clients.suite import Suite
from benchmarks.on_slice import REPOSITORY

_REPORTER = REPOSITORY / "benchmarks" / "clients" / "reporter"
_MOST_ENDED = 25
_GRACE_S = 20
_INTERRUPTED = "interrupted"


def collect(suite: Suite) -> list[str]:
    """Return the ids of all tests of the suite, without running them."""
    run = _run_pytest(suite, [str(suite.tests / name) for name in suite.test_files()], collect=True)
    return run.tests


def run_file(
    suite: Suite,
    name: str,
    only: Sequence[str] | None = None,
    begun: FileRun | None = None,
    keep: Callable[[FileRun], None] = lambda _: None,
) -> FileRun:
    """Run the tests of a file (``only`` these), and return the outcome of each.

    After a test that ended the process, the rest runs in a new one. When that has happened
    25 times, the tests that are left count as not run. ``keep`` gets what is known after each
    process, also after KeyboardInterrupt; a later call continues if it gets that as ``begun``.
    """
    whole = begun or FileRun()
    pending = whole.pending() if begun else only

    def add(part: FileRun) -> None:
        if not whole.tests:
            whole.tests = [test for test in part.tests if only is None or test in only]
        whole.outcomes |= part.outcomes
        keep(whole)

    for _ in range(_MOST_ENDED):
        try:
            part = _run_pytest(suite, [str(suite.tests / name)], pending)
        except KeyboardInterrupt:
            add(_read_interrupted(suite))
            raise
        add(part)
        pending = whole.pending()
        if part.has_ended or not part.outcomes or not pending:
            break
    if not whole.outcomes and not whole.tests:
        whole.tests = [name]
    for test in whole.pending():
        whole.outcomes[test] = Outcome(test, "not run", message=_last_output(suite))
    return whole


def _read_interrupted(suite: Suite) -> FileRun:
    """Read what a process had reported when it was interrupted, without the test that ran."""
    with (folder_of(suite.client) / "scratch" / "results.jsonl").open() as lines:
        run = read_run(lines, _INTERRUPTED)
    ended = {
        name: outcome for name, outcome in run.outcomes.items() if outcome.outcome != _INTERRUPTED
    }
    return FileRun(run.tests, ended)


def _last_output(suite: Suite) -> str:
    return (folder_of(suite.client) / "scratch" / "output.txt").read_text(errors="replace")[-2000:]


def _run_pytest(
    suite: Suite, paths: Iterable[str], only: Sequence[str] | None = None, collect: bool = False
) -> FileRun:
    client, scratch = suite.client, folder_of(suite.client) / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    results, chosen, trace = (scratch / part for part in ("results.jsonl", "only.json", "trace"))
    output = scratch / "output.txt"
    results.write_text("")
    trace.write_text("")
    own = {name: suite.expand(value) for name, value in client.environment.items()}
    environment = os.environ | own
    environment["TESSERA_CLIENT_RESULTS"] = str(results)
    environment["TESSERA_TRACE"] = str(trace)
    environment["PATH"] = os.pathsep.join((str(python_of(client).parent), os.environ["PATH"]))
    environment["PYTHONPATH"] = os.pathsep.join((str(_REPORTER), own.get("PYTHONPATH", "")))
    if only is not None:
        chosen.write_text(json.dumps(list(only)))
        environment["TESSERA_CLIENT_ONLY"] = str(chosen)
    pytest = [
        str(python_of(client)),
        "-m",
        "pytest",
        "-q",
        "-p",
        "tessera_reporter",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(suite.tests),
        "--confcutdir",
        str(suite.tests),
        "--timeout",
        str(client.test_limit_s),
        "--timeout-method",
        "thread",
        *(suite.expand(argument) for argument in client.arguments),
        *(["--collect-only"] if collect else []),
        *paths,
    ]
    device = ["--slice", client.slice] if client.slice else ["--count", str(client.gpus)]
    command = [*TESSERA, "run", "--board", client.board, *device, *client.options, "--", *pytest]
    with output.open("w") as file:
        in_time = _wait(command, environment, suite.tests, file.fileno(), client.file_limit_s)
    was_timeout = not in_time or "++ Timeout ++" in output.read_text(errors="replace")
    with results.open() as lines:
        return read_run(lines, "timed out" if was_timeout else "crashed")


def _wait(
    command: Sequence[str], environment: dict[str, str], folder: Path, output: int, limit_s: int
) -> bool:
    """Run a command in a process group of its own; return whether it ended within the limit."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return False
    except KeyboardInterrupt:
        _end(process)
        raise
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
