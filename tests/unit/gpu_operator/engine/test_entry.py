"""``tessera-operator``: for which missing modules it prints an installation command."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from gpu_operator import __main__ as entry


class App(ModuleType):
    """Replaces ``gpu_operator.app``: an import of it fails or is recorded."""

    def __init__(self, fail: Callable[[], Any]) -> None:
        super().__init__("gpu_operator.app")
        self._fail = fail

    def __getattr__(self, name: str) -> Any:
        if name != "main":
            raise AttributeError(name)
        return self._fail()


def start(monkeypatch: pytest.MonkeyPatch, fail: Callable[[], Any]) -> None:
    monkeypatch.setitem(sys.modules, "gpu_operator.app", App(fail))
    entry.main()


def missing(name: str | None) -> Callable[[], Any]:
    def fail() -> Any:
        raise ModuleNotFoundError(f"no module named {name}", name=name)

    return fail


@pytest.mark.parametrize("name", ["kopf", "kubernetes.aio", "migrations"])
def test_a_missing_library_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        start(monkeypatch, missing(name))
    assert ended.value.code == (
        f"tessera-operator: {name} is not installed: pip install 'tessera[operator]'"
    )


@pytest.mark.parametrize("name", ["gpu_operator.app.serve", "mig", "mig.planner", None])
def test_a_missing_part_of_tessera_is_a_defect(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    """No package provides it, so the traceback must show the import."""
    with pytest.raises(ModuleNotFoundError):
        start(monkeypatch, missing(name))


def test_the_command_runs_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[dict[str, str]] = []
    start(monkeypatch, lambda: lambda **options: called.append(options))
    assert called == [{"prog_name": "tessera-operator"}]
