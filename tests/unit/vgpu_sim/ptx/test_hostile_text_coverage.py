"""The coverage feedback of ``make fuzz text=...``. Atheris is installed only for that target."""

import importlib
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

atheris = pytest.importorskip("atheris", reason="pip install atheris")

from support.fuzzers.hostile_text import guidance, seeds  # noqa: E402
from support.fuzzers.hostile_text.coverage import Coverage  # noqa: E402
from support.fuzzers.hostile_text.targets import Target  # noqa: E402

_LOOP = "def loop(n):\n    while n > 0:\n        n -= 1\n    return n\n"
_SAXPY = (Path(__file__).parents[4] / "examples" / "saxpy.ptx").read_bytes()


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the reports to libFuzzer."""
    reports: list[int] = []
    counters = count()
    monkeypatch.setattr("support.fuzzers.hostile_text.coverage._reserve", lambda: next(counters))
    monkeypatch.setattr(atheris, "_reserve_counter", None)
    monkeypatch.setattr(atheris, "_trace_branch", reports.append)
    return reports


def _loops(tmp_path: Path, names: tuple[str, str], coverage: Coverage) -> Iterator[object]:
    (tmp_path / "covered").mkdir()
    (tmp_path / "covered" / "__init__.py").write_text("")
    for name in names:
        (tmp_path / f"{name.replace('.', '/')}.py").write_text(_LOOP)
    with coverage.instrument(["covered.this"], comparisons=False):
        yield from [importlib.import_module(name).loop for name in names]


def test_libfuzzer_gets_each_branch_once_with_its_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: list[int]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    coverage = Coverage()
    this, other = _loops(tmp_path, ("covered.this", "covered.that"), coverage)

    def run(loop, times: int) -> set[int]:  # type: ignore[no-untyped-def]
        reports.clear()
        coverage.begin()
        loop(times)
        coverage.tell()
        assert len(reports) == len(set(reports))
        return set(reports)

    assert run(this, 40) == run(this, 60)  # both are in the class from 32 to 127 times
    different = [run(this, times) for times in (0, 1, 2, 3, 5, 10, 20, 60, 5000)]
    assert all(a != b for n, a in enumerate(different) for b in different[:n])
    assert {len(reports) for reports in different[1:]} == {len(different[1])}
    assert run(other, 60) == set()  # outside the instrumented prefixes


def test_texts_of_earlier_runs_are_examined_and_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("corpus", "found"):
        (tmp_path / name).mkdir()
    monkeypatch.setitem(guidance._NOTED_EVERY, "parse", 1)
    monkeypatch.setattr(atheris, "Mutate", lambda data, most: data[1:])  # libFuzzer is absent
    target = Target("parse")
    inputs = guidance.Inputs(target, "parse", tmp_path, 1000, 7)
    assert len(list((tmp_path / "corpus").iterdir())) == len(set(seeds.texts()))
    inputs.examine(_SAXPY)
    assert target.reached == {}
    for number in range(20):
        inputs.examine(inputs.change(_SAXPY, seeds.MAX_BYTES, number * 1000))
        inputs.examine(_SAXPY)
    said = json.loads((tmp_path / "child-7.json").read_text())
    assert said["runs"] == sum(said["reached"].values()) == 20
