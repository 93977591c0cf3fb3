"""Progress of long work: a line on terminals, and nothing in logs."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tessera_torch.warm import progress as warm_progress
from vgpu_sim.cli import progress
from vgpu_sim.cli.main import main
from vgpu_sim.cli.perf import accuracy

Shown = Callable[[], str]


@pytest.fixture
def make_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Shown]]:
    """Return a function that makes stderr a terminal, and returns how to read what it shows.

    A test calls it itself: pytest replaces stderr once more after the fixtures.
    """
    monkeypatch.setenv("COLUMNS", "80")
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", 0), os.fdopen(theirs, "w") as stream:

        def read() -> str:
            stream.write("\n\x03")
            stream.flush()
            text = b""
            while not text.endswith(b"\r\n\x03"):
                text += os.read(ours, 1 << 16)
            return text.decode().removesuffix("\r\n\x03")

        def make() -> Shown:
            monkeypatch.setattr(sys, "stderr", stream)
            return read

        yield make
        monkeypatch.undo()


def work(seconds: float = 0.0) -> None:
    with progress.track("tables", 3) as line:
        for name in ("one", "two", "three"):
            line.begin(name)
            time.sleep(seconds)
            line.advance()


def test_a_terminal_shows_position_rate_and_time_left(make_terminal: Callable[[], Shown]) -> None:
    shown = make_terminal()
    work(1.01)  # the time left is computed once a second
    text = shown()
    assert "tables  0/3  one" in text
    assert re.search(r"tables  1/3  00:00:\d\d  0\.\d", text)  # slower on a busy machine
    assert "/s  two" in text
    assert "\r\x1b[K" in text


def test_a_log_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    work()
    assert list(warm_progress.follow([1, 2], "programs")) == [1, 2]
    assert capfd.readouterr() == ("", "")


def test_a_line_is_no_wider_than_the_terminal(
    make_terminal: Callable[[], Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = make_terminal()
    with progress.track("tables", 2) as line:
        line.begin("x" * 200)
    longest = max(len(one) for one in shown().replace("\x1b[?25l", "").split("\r"))
    assert 25 < longest <= 60


@pytest.mark.parametrize("arguments", [(), ("--residual",), ("--unseen",)])
def test_fit_shows_the_tables(
    arguments: tuple[str, ...],
    make_terminal: Callable[[], Shown],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(accuracy, "_fit_table", lambda *_: None)
    monkeypatch.setattr(accuracy.unseen, "fit", lambda _: None)
    monkeypatch.setattr(accuracy.parameters, "render", lambda _: "")
    shown = make_terminal()
    with pytest.raises(SystemExit) as ended:
        main(["perf", "fit", "--into", str(tmp_path), *arguments])
    assert ended.value.code == 0
    text = shown()
    assert ("boards  0/" if arguments == ("--unseen",) else "tables  0/") in text
    assert ("gemm/" in text) is (arguments != ("--unseen",))


def test_calls_of_warm_are_followed(
    make_terminal: Callable[[], Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = make_terminal()
    clock = iter((0.0, 0.0, 30.0, 60.0))
    monkeypatch.setattr(warm_progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert list(warm_progress.follow("abc", "programs")) == ["a", "b", "c"]
    text = shown()
    assert "programs  0/3" in text
    assert "programs  1/3  1:00 left  0.0333/s" in text
    assert text.endswith("\r\x1b[K")
