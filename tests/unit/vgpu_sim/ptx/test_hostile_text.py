"""A part of ``make fuzz text=...`` without coverage feedback, and its components."""

import importlib.util
import json
import os
import signal
from pathlib import Path
from random import Random

import pytest

from support.fuzzers.hostile_text import __main__ as command, campaign, seeds, targets
from support.fuzzers.hostile_text.campaign import Campaign
from support.fuzzers.hostile_text.mutations import CHANGES, excerpt, mutate
from support.fuzzers.hostile_text.targets import Target
from vgpu_sim.compiler.ptx import parse

_TEXTS = seeds.texts()


def _mutate(number: int) -> bytes:
    random = Random(number)
    return mutate(random.choice(_TEXTS), random, _TEXTS, seeds.MAX_BYTES).encode(errors="replace")


@pytest.mark.parametrize(("stage", "count"), [("isa", 400), ("llvm", 40)])
def test_whatever_the_text_it_is_compiled_or_refused(stage: str, count: int) -> None:
    target = Target(stage)
    try:
        for number in range(count):
            failure = target.examine(_mutate(number))
            assert failure is None, f"mutation {number}: {failure.kind}\n{failure.detail}"
    finally:
        target.close()
    assert target.reached["refused"] > count / 20
    assert target.reached[{"isa": "code", "llvm": "object code"}[stage]] > count / 20


def test_every_change_changes_something_and_keeps_much_ptx() -> None:
    text = (Path(__file__).parents[4] / "examples" / "saxpy.ptx").read_text()
    for change in set(CHANGES):
        made = {change(text, Random(number), _TEXTS) for number in range(20)}
        assert len(made) > 5, change.__name__
        assert all(change(part, Random(1), _TEXTS) is not None for part in ("", ";", "\n", "a"))
    assert sum(_is_ptx(_mutate(number)) for number in range(100)) > 10


def test_an_excerpt_is_short_and_mostly_still_compiles() -> None:
    target, random = Target("isa"), Random(1)
    long = [text for text in _TEXTS if len(text) > 3000]
    made = [excerpt(text, random) for text in long for _ in range(3)]
    assert all(target.examine(text.encode()) is None for text in made)
    assert target.reached["code"] > 0.8 * len(made)
    assert sum(map(len, made)) < 1.5 * sum(map(len, long))  # three excerpts of each
    assert len(set(made)) > 0.9 * len(made)


def _is_ptx(data: bytes) -> bool:
    try:
        parse(data)
    except ValueError as error:
        raise AssertionError from error
    except Exception:  # noqa: BLE001 - any refusal
        return False
    return True


def _spin(data: bytes) -> str:
    while True:
        pass


def _hoard(data: bytes) -> str:
    return str(len(bytearray(900 << 20).replace(b"\0", b"a", 1)))


def _stumble(data: bytes) -> str:
    raise KeyError("a defect")


@pytest.mark.parametrize(
    ("defect", "kind"), [(_spin, "too slow"), (_hoard, "too much memory"), (_stumble, "KeyError")]
)
def test_a_wrong_result_is_a_failure(defect, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(targets.CPU_SECONDS, "parse", 0.2 if defect is _spin else 20.0)
    monkeypatch.setattr(targets, "_parse", defect)
    failure = Target("parse").examine(b"")
    assert failure is not None
    assert failure.kind.startswith(kind)


def test_what_ends_the_compilers_process_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from vgpu_sim.exec.jit.target import llvm

    monkeypatch.setattr(llvm, "object_code", lambda *_: os.kill(os.getpid(), signal.SIGABRT))
    target = Target("llvm")
    try:
        failure = target.examine((Path(_EXAMPLES) / "saxpy.ptx").read_bytes())
    finally:
        target.close()
    assert failure is not None
    assert failure.kind.startswith("CodeGenerationError")
    assert "SIGABRT" in failure.detail


_EXAMPLES = Path(__file__).parents[4] / "examples"


_REPORTS = (
    "import json, sys, pathlib, time; stage, folder, runs, number = sys.argv[1:]; "
    "folder = pathlib.Path(folder); report = folder / f'child-{number}.json'; "
    "report.write_text(json.dumps({'runs': int(runs), 'reached': {'tree': 1}})); "
)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a program that replaces the child; it first reports all its runs as
    done.
    """
    monkeypatch.setattr(campaign, "CHILD", ("stand_in",))
    monkeypatch.setattr(campaign, "RUNS_OF_A_CHILD", dict.fromkeys(targets.STAGES, 100))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "stand_in.py"


def test_a_campaign_resumes_and_records_crashes(tmp_path: Path, stand_in: Path) -> None:
    """Every second child fails."""
    stand_in.write_text(_REPORTS + "print('how it ended'); sys.exit(int(number) % 2 == 0)")
    said: list[str] = []
    for total in (150, 300):
        state = Campaign("parse", tmp_path, said.append).run(150, 5.0)
        assert state.runs == total
        assert f"parse: {total} of 2000000 inputs" in said[-1]
    assert state.deaths == 2
    assert state.reached == {"tree": 4}
    folder = tmp_path / "text" / "parse"
    assert json.loads((folder / "state.json").read_text())["runs"] == 300
    logs = Campaign("parse", tmp_path).list_findings()
    assert ["how it ended" in log.read_text() for log in logs] == [True, True]
    assert not list(folder.glob("child-*"))


def test_two_jobs_run_at_a_time_and_share_the_runs(tmp_path: Path, stand_in: Path) -> None:
    """Each of the first two jobs waits for the other one's report."""
    wait = (
        "other = folder / f'child-{3 - int(number)}.json' if int(number) < 3 else report\n"
        "until = time.time() + 60\n"
        "while time.time() < until and not other.exists(): time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "sys.exit(not other.exists())"
    )
    stand_in.write_text(f"{_REPORTS}\n{wait}")
    state = Campaign("parse", tmp_path, lambda _: None, jobs=2).run(150, 5.0)
    assert (state.runs, state.children, state.deaths) == (150, 2, 0)


def test_a_childs_notes_count_after_its_timeout(tmp_path: Path, stand_in: Path) -> None:
    stand_in.write_text(_REPORTS + "time.sleep(600)")
    state = Campaign("isa", tmp_path, lambda _: None, jobs=2).run(1000, 6 / 60)
    assert (state.runs, state.children, state.deaths) == (200, 2, 0)


def test_all_stages_run_to_their_goals_and_then_to_the_next(
    tmp_path: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.write_text(_REPORTS)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    for module in (campaign, command):
        monkeypatch.setattr(module, "GOALS", {"parse": 250, "isa": 120, "llvm": 20})
    for times in (1, 2):
        assert command.main(["text=all", f"folder={tmp_path}", "jobs=2"]) == 0
        runs = [Campaign(stage, tmp_path).state.runs for stage in targets.STAGES]
        assert runs == [250 * times, 120 * times, 20 * times]
