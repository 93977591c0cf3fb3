"""The effects of the death, silence and end of each of the agent's processes on the others."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.processes.gpud_process import wait_until

REPOSITORY = Path(__file__).resolve().parents[4]
FOREVER_S = 600.0


class Supervised:
    """A supervisor whose children log their process IDs and their end (``run_supervisor.py``)."""

    def __init__(self, directory: Path, agent: str, hung_after_s: float, settled_s: float) -> None:
        self._log = directory / "log"
        self._log.touch()
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(REPOSITORY / "tests" / "support" / "scripts" / "run_supervisor.py"),
                *(str(directory), agent, str(hung_after_s), str(settled_s)),
            ],
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}"},
        )

    def log_entries(self) -> list[tuple[str, str]]:
        lines = self._log.read_text().splitlines()
        return [(who, what) for who, _, what in (line.partition(" ") for line in lines)]

    def started_pids(self, who: str) -> list[int]:
        """Return the process IDs of all processes that were started under a name."""
        return [int(what) for one, what in self.log_entries() if one == who and what.isdecimal()]

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


Start = Callable[..., Supervised]


@pytest.fixture
def start_supervised(tmp_path: Path) -> Iterator[Start]:
    made: list[Supervised] = []

    def start(agent: str, hung_after_s: float = FOREVER_S, settled_s: float = 0.1) -> Supervised:
        made.append(Supervised(tmp_path, agent, hung_after_s, settled_s))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.wait(30)


def both(one: Supervised) -> tuple[int, int]:
    wait_until(lambda: one.started_pids("agent") and one.started_pids("kubelet"))
    return one.started_pids("agent")[0], one.started_pids("kubelet")[0]


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_an_agent_that_hangs_is_started_again_alone(start_supervised: Start) -> None:
    one = start_supervised("hanging", hung_after_s=0.5)
    agent, kubelet = both(one)
    wait_until(lambda: len(one.started_pids("agent")) > 1)
    assert not runs(agent)
    assert one.started_pids("kubelet") == [kubelet]
    assert runs(kubelet)
    assert one.end() == 0


def test_an_agent_that_hangs_soon_after_its_start_ends_the_container(
    start_supervised: Start,
) -> None:
    one = start_supervised("hanging", hung_after_s=0.5, settled_s=FOREVER_S)
    _, kubelet = both(one)
    assert one.process.wait(30) == 1
    assert len(one.started_pids("agent")) == 1
    assert not runs(kubelet)


def test_a_process_that_serves_the_kubelet_and_hangs_is_started_again_alone(
    start_supervised: Start,
) -> None:
    """It was the agent that was killed, though it only waited for the other process."""
    one = start_supervised("kubelet-hangs", hung_after_s=0.5, settled_s=FOREVER_S)
    agent, kubelet = both(one)
    wait_until(lambda: len(one.started_pids("kubelet")) > 1)
    assert not runs(kubelet)
    assert one.started_pids("agent") == [agent]
    assert runs(agent)
    assert one.end() == 0


def test_the_container_that_stands_by_has_no_agent(start_supervised: Start, tmp_path: Path) -> None:
    one = start_supervised("standby", hung_after_s=3.0)
    wait_until(lambda: one.started_pids("kubelet"))
    (first,) = one.started_pids("kubelet")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(one.started_pids("kubelet")) == 2)
    alive = tmp_path / "link" / "standby-alive"
    wait_until(lambda: time.time() - alive.stat().st_mtime < 1)
    one.process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    assert time.time() - alive.stat().st_mtime > 1
    one.process.send_signal(signal.SIGCONT)
    assert one.end() == 0
    assert one.started_pids("agent") == []


def test_an_agent_that_gives_signs_of_life_is_left_alone(start_supervised: Start) -> None:
    one = start_supervised("beating", hung_after_s=3.0)
    agent, _ = both(one)
    time.sleep(4.0)
    assert one.started_pids("agent") == [agent]
    assert runs(agent)


def test_an_agent_that_is_killed_is_started_again_alone(start_supervised: Start) -> None:
    one = start_supervised("beating")
    agent, kubelet = both(one)
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: len(one.started_pids("agent")) == 2)
    assert one.started_pids("kubelet") == [kubelet]
    assert runs(kubelet)


def test_the_kubelet_is_served_until_the_agent_has_left(start_supervised: Start) -> None:
    one = start_supervised("beating")
    both(one)
    assert one.end() == 0
    assert one.log_entries()[-2:] == [("agent", "ended"), ("kubelet", "ended")]


def test_a_collection_writes_to_nothing_that_the_processes_share(start_supervised: Start) -> None:
    one = start_supervised("beating")
    both(one)
    assert ("agent", "collects") not in one.log_entries()
    assert ("kubelet", "collects") not in one.log_entries()


def test_the_supervisor_keeps_no_page_of_code_that_only_imports_ran(
    start_supervised: Start,
) -> None:
    one = start_supervised("beating")
    both(one)
    lines = Path(f"/proc/{one.process.pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    assert kib["Rss"] - kib["Anonymous"] < 9 << 10  # 14 MiB if those pages stay


def test_neither_process_outlives_the_supervisor(start_supervised: Start) -> None:
    one = start_supervised("beating")
    children = both(one)
    one.process.kill()
    one.process.wait(30)
    wait_until(lambda: not any(map(runs, children)))


def test_an_agent_that_never_got_to_work_ends_the_container(start_supervised: Start) -> None:
    one = start_supervised("failing")
    assert one.process.wait(30) == 1
    assert not any(map(runs, one.started_pids("kubelet")))


@pytest.mark.parametrize(
    ("fails", "status", "message"),
    [
        ("raise errors.ClusterError('the API server is away')", 1, "the API server is away"),
        ("raise OSError('no space left')", 1, "no space left"),
        ("raise ValueError('HEALTH_PORT')", 1, "HEALTH_PORT"),
        ("pass", 0, ""),
    ],
)
def test_a_child_that_fails_ends_with_a_status_and_the_reason(
    fails: str, status: int, message: str
) -> None:
    program = (
        "import os\nfrom device_plugin import app, errors\n"
        f"def body():\n    {fails}\n"
        "app._be_child(os.getppid(), 'agent', body)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr == (f"tessera-device-plugin: {message}\n" if message else "")
