"""Runs the tests against one mutated copy of the tree."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from edits import Edit
from outcomes import STAGE_TIMED_OUT, Failure, Outcome, Verdict, failure_in, verdict_of
from reach import Reach
from rooms import LAST, Room

TEST_LIMIT_S = 120
STAGE_LIMIT_S = 900
"""Longer than any stage takes on a busy machine; kills a mutation that hangs."""
_LIBRARIES = "vgpu_sim/native/lib"
_IMPORTED = ("", "operator", "tests/mutation")
_COPIED = (
    "boards",
    "console",
    "drawing",
    "operator",
    "device_plugin",
    "kubelet_conformance",
    "facts",
    "hca",
    "mig",
    "rdma",
    "vgpu_sim",
    "tests",
    "examples",
    "charts",
    "deploy",
)
_COPIED_FILES = ("pyproject.toml", ".importlinter", "README.md", "hatch_build.py", "Makefile")


class Tree:
    """A private copy of the checkout in which mutations are tried one after another."""

    def __init__(self, root: Path, directory: Path, reach: Reach | None = None) -> None:
        self.directory = directory
        self._reach = reach or Reach()
        self._objects = directory.with_name(f"{directory.name}.objects")
        self._built = directory.with_name(f"{directory.name}.built")
        self._output = directory.with_name(f"{directory.name}.log")
        directory.mkdir(parents=True)
        for name in (*_COPIED, "docs", "benchmarks"):
            shutil.copytree(
                root / name, directory / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in (*_COPIED_FILES, "constraints.txt"):
            shutil.copy2(root / name, directory / name)

    def attempt(self, edit: Edit, room: Room) -> Outcome:
        """Run the tests against a mutation; afterwards restore the copy's sources."""
        if not self._built.exists():
            assert self.builds(), self._output.read_text(errors="replace")
            shutil.copytree(self.directory / _LIBRARIES, self._built, symlinks=True)
        started = time.monotonic()
        path = self.directory / edit.path
        text = path.read_text(encoding="utf-8")
        path.write_text(edit.apply(text), encoding="utf-8")
        failure = None
        try:
            if not (_is_python_or_c(edit, text) and self._compiles(edit)):
                verdict = Verdict.INVALID
            else:
                failure = self.first_failure(room, edit, text)
                verdict = verdict_of(failure)
        finally:
            path.write_text(text, encoding="utf-8")
            if edit.path.suffix == ".c":
                self._put_back()
        return Outcome(verdict, time.monotonic() - started, failure)

    def first_failure(self, room: Room, edit: Edit, text: str) -> Failure | None:
        """Run all stages of a room, in each the tests of the mutated file first; return the first
        failure.

        Tests that cannot reach that file are left out, unless the edit must have no effect. If
        the tests that reach the line are recorded, only these run, the fastest first.
        """
        tried: set[str] = set()
        reaching = self._reach.reaching(edit.path, text, edit.line(text))
        if reaching is not None and not edit.is_neutral:
            every = {test for stage in room.stages for test in self.tests(stage)}
            chosen = [
                test
                for test in every
                if _sees(room, test, edit.path)
                and (test in reaching or test in room.sees or not self._reach.knows(test))
            ]
            chosen.sort(key=lambda test: (self._reach.seconds.get(test, 0.0), test))
            if chosen and not self.passes(chosen):
                return failure_in(self._output.read_text(errors="replace"))
            return None
        for stage in room.stages:
            own: list[str] = []
            others: list[str] = []
            for test in self.tests(stage):
                if test in tried or not (edit.is_neutral or _sees(room, test, edit.path)):
                    continue
                tried.add(test)
                is_own = _tests_file(self.directory / test, edit.path)
                (own if is_own else others).append(test)
            # Collecting the others takes longer than most tests, so they run in a second step.
            for tests in (own, others):
                if tests and not self.passes(tests):
                    return failure_in(self._output.read_text(errors="replace"))
        return None

    def builds(self) -> bool:
        """Return whether the native parts compile."""
        return self._run([sys.executable, "-m", "vgpu_sim.native.build"])

    def _compiles(self, edit: Edit) -> bool:
        """Return whether the native parts compile with an edit in one of their files."""
        if edit.path.suffix != ".c":
            return True
        compiler = self.directory / "tests/mutation/object_compiler.py"
        source = self.directory / edit.path
        return self._run([sys.executable, str(compiler), str(source), str(self._objects)])

    def _put_back(self) -> None:
        """Restore the libraries of the unchanged tree."""
        shutil.rmtree(self.directory / _LIBRARIES)
        shutil.copytree(self._built, self.directory / _LIBRARIES, symlinks=True)

    def passes(self, tests: Sequence[str], options: Sequence[str] = ("-x",)) -> bool:
        """Return whether tests pass."""
        plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "unshrunk"]
        # A loop in C does not end on a signal, which is pytest-timeout's other method.
        limits = [f"--timeout={TEST_LIMIT_S}", "--timeout-method=thread"]
        return self._run(
            [sys.executable, "-m", "pytest", "-q", *options, *plugins, *limits, *tests]
        )

    def tests(self, stage: Sequence[str]) -> list[str]:
        """Return the test files of a stage, the slow ones last."""
        found = [
            str(path.relative_to(self.directory))
            for pattern in stage
            for root in sorted(self.directory.glob(pattern))
            for path in ([root] if root.is_file() else sorted(root.rglob("test_*.py")))
        ]
        assert found, f"no tests match {stage}"
        return sorted(found, key=lambda test: Path(test).name in LAST)

    def _run(self, command: Sequence[str]) -> bool:
        """Run a command in its own process group, and kill the group afterwards; return whether it
        succeeded.
        """
        path = os.pathsep.join(str(self.directory / part) for part in _IMPORTED)
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            return process.wait(STAGE_LIMIT_S) == 0
        except subprocess.TimeoutExpired:
            with self._output.open("ab") as output:
                output.write(STAGE_TIMED_OUT)
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _sees(room: Room, test: str, mutated: Path) -> bool:
    """Return whether a mutation can affect a test, according to the room."""
    seen = room.sees.get(test)
    return seen is None or any(mutated.is_relative_to(path) for path in seen)


def _tests_file(test: Path, mutated: Path) -> bool:
    """Return whether a test names a module: in its own name, as test_mig_plan.py does, or in an
    import.
    """
    words = {word.rstrip("s") for word in test.stem.split("_")}
    if any(word.rstrip("s") in words for word in mutated.stem.split("_") if len(word) > 2):
        return True
    package, name = ".".join(mutated.parent.parts).removeprefix("operator."), mutated.stem
    imported = rf"{re.escape(package)}(?:\.{name}\b| import [^\n]*\b{name}\b)"
    return re.search(imported, test.read_text(encoding="utf-8")) is not None


def _is_python_or_c(edit: Edit, text: str) -> bool:
    """Return whether a mutated Python file is valid Python; C files are checked by the compiler."""
    if edit.path.suffix == ".c":
        return True
    try:
        compile(edit.apply(text), "mutated", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True
