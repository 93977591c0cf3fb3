"""A share of ``make fuzz text=...`` without its guidance, and what that is made of."""

import json
import os
import signal
from pathlib import Path
from random import Random

import pytest
from hostile_text import campaign, seeds, targets
from hostile_text.campaign import Campaign
from hostile_text.mutations import CHANGES, mutate
from hostile_text.targets import Target

from vgpu_sim.compiler.ptx import parse

_TEXTS = seeds.texts()


def _mutated(number: int) -> bytes:
    random = Random(number)
    return mutate(random.choice(_TEXTS), random, _TEXTS, seeds.MAX_BYTES).encode(errors="replace")


@pytest.mark.parametrize(("stage", "count"), [("isa", 400), ("llvm", 40)])
def test_whatever_the_text_it_is_compiled_or_refused(stage: str, count: int) -> None:
    target = Target(stage)
    try:
        for number in range(count):
            failure = target.examine(_mutated(number))
            assert failure is None, f"mutation {number}: {failure.kind}\n{failure.detail}"
    finally:
        target.close()
    assert target.reached["refused"] > count / 20
    assert target.reached[{"isa": "code", "llvm": "object code"}[stage]] > count / 20


def test_every_change_changes_something_and_keeps_much_ptx() -> None:
    text = (Path(__file__).parents[3] / "examples" / "saxpy.ptx").read_text()
    for change in set(CHANGES):
        made = {change(text, Random(number), _TEXTS) for number in range(20)}
        assert len(made) > 5, change.__name__
        assert all(change(part, Random(1), _TEXTS) is not None for part in ("", ";", "\n", "a"))
    assert sum(_is_ptx(_mutated(number)) for number in range(100)) > 10


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
def test_what_is_wrong_is_a_failure(defect, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(targets.CPU_SECONDS, "parse", 0.2 if defect is _spin else 20.0)
    monkeypatch.setattr(targets, "_parse", defect)
    failure = Target("parse").examine(b"")
    assert failure is not None
    assert failure.kind.startswith(kind)


def test_what_ends_the_compilers_process_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from vgpu_sim.exec.jit import llvm

    monkeypatch.setattr(llvm, "object_code", lambda *_: os.kill(os.getpid(), signal.SIGABRT))
    target = Target("llvm")
    try:
        failure = target.examine((Path(_EXAMPLES) / "saxpy.ptx").read_bytes())
    finally:
        target.close()
    assert failure is not None
    assert failure.kind.startswith("CodeGenerationError")
    assert "SIGABRT" in failure.detail


_EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_campaign_goes_on_where_it_stopped_and_notes_who_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children are stand-ins that claim runs; every second one dies of it."""
    stand_in = (
        "import json, sys, pathlib; stage, folder, runs, seed = sys.argv[1:]; "
        "report = {'runs': int(runs), 'reached': {'tree': 1}}; "
        "pathlib.Path(folder, 'child.json').write_text(json.dumps(report)); "
        "print('how it ended'); sys.exit(int(seed) % 2 == 0)"
    )
    (tmp_path / "stand_in.py").write_text(stand_in)
    monkeypatch.setattr(campaign, "CHILD", ("stand_in",))
    monkeypatch.setattr(campaign, "RUNS_OF_A_CHILD", {"parse": 100})
    monkeypatch.syspath_prepend(str(tmp_path))
    for total in (150, 300):
        state = Campaign("parse", tmp_path, lambda _: None).run(150, 5.0)
        assert state.runs == total
    assert state.deaths == 2
    assert state.reached == {"tree": 4}
    assert json.loads((tmp_path / "text/parse/state.json").read_text())["runs"] == 300
    logs = Campaign("parse", tmp_path).found()
    assert ["how it ended" in log.read_text() for log in logs] == [True, True]
