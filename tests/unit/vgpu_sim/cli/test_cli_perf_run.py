"""``tessera perf run`` with a node whose events the test writes: refused records and exit status."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from click.testing import CliRunner, Result

from vgpu_sim.cli.perf import run_command
from vgpu_sim.hal.observe.modelled_report import ModelledSummary

_STARTED = {"event": "context_started", "pid": 7}
_SUMMARY = {"event": "modelled", "pid": 7, "summary": ModelledSummary((), 9.0, 1.0, 0).to_json()}
_BAD = {
    "event": "modelled",
    "pid": 7,
    "launches": {"kernel": "bulk", "counts": {"long_covered": -2.46}},
}
Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    def run_with(*events: dict[str, Any], status: int = 0, live: tuple[int, ...] = ()) -> Result:
        contexts = [{"pid": pid} for pid in live]
        admin = MagicMock()
        admin.__enter__.return_value = admin
        admin.call.return_value = {"gpus": [{"instances": [{"contexts": contexts}]}]}
        admin.next_event.side_effect = TimeoutError
        admin.queued_events.return_value = json.loads(json.dumps(events))
        node = MagicMock()
        node.__enter__.return_value = node
        monkeypatch.setattr(run_command, "StandaloneNode", lambda *_: node)
        monkeypatch.setattr(run_command, "AdminClient", lambda *_: admin)
        monkeypatch.setattr(run_command, "configure", lambda *_: None)
        monkeypatch.setattr(run_command.config, "program_environment", lambda *_: {})
        monkeypatch.setattr(run_command, "run_program", lambda *_: status)
        report = str(tmp_path / "report.json")
        return CliRunner().invoke(
            run_command.run, ["--board", "h100-80gb", "--json", report, "--", "program"]
        )

    return run_with


def test_a_refused_record_ends_a_successful_program_with_125(run: Run, tmp_path: Path) -> None:
    done = run(_STARTED, _BAD, _SUMMARY)
    assert done.exit_code == 125
    assert "error: refused the record 'launches' of kernel bulk: " in done.stderr
    (refused,) = json.loads((tmp_path / "report.json").read_text())["refused"]
    assert (refused["record"], refused["kernel"]) == ("launches", "bulk")
    assert refused["reason"]


def test_the_status_of_a_program_that_fails_remains(run: Run) -> None:
    assert run(_STARTED, _BAD, _SUMMARY, status=7).exit_code == 7


def test_a_context_without_a_report_is_an_error(run: Run, tmp_path: Path) -> None:
    fault = {"event": "fault", "pid": 7, "message": "the worker ended: killed"}
    done = run(_STARTED, fault)
    assert done.exit_code == 125
    assert "the report of context 0 is not complete: the worker ended: killed" in done.stderr
    assert "before it used the GPU" not in done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["refused"]


@pytest.mark.parametrize("status", [0, 7])
@pytest.mark.parametrize("events", [(), (_STARTED,)])
def test_a_context_that_goes_on_after_the_program_is_an_error(
    run: Run, tmp_path: Path, events: tuple[dict[str, Any], ...], status: int
) -> None:
    result = run(*events, live=(7,), status=status)
    assert result.exit_code == (status or 125)
    reason = "still running when this stopped listening"
    assert f"error: the report of context 0 is not complete: {reason}" in result.stderr
    (refused,) = json.loads((tmp_path / "report.json").read_text())["refused"]
    assert refused == {"context": 0, "record": "report", "kernel": "", "reason": reason}


def test_a_complete_report_is_none(run: Run, tmp_path: Path) -> None:
    assert run(_STARTED, _SUMMARY).exit_code == 0
    assert json.loads((tmp_path / "report.json").read_text())["refused"] == []
