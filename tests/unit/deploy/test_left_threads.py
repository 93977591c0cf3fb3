"""A test that leaves threads of the product running fails itself."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """
import queue, threading
from device_plugin.errors import ClusterError
from device_plugin.kube.informer import Informer
from vgpu_sim.system.foreign import ForeignSockets

class Away:
    def list(self): raise ClusterError("no response")

def test_tries_again_and_again():
    followed = Informer(Away(), print)
    threading.Thread(target=followed.run, args=(lambda err: None,), daemon=True).start()

def test_waits_for_a_request():
    ForeignSockets("slice", refusing=False).start()

def test_ends():
    threading.Thread(target=queue.Queue().get, kwargs={"timeout": 0.1}).start()
"""


def test_a_running_thread_fails_the_test_and_a_waiting_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "test_three.py").write_text(TESTS)
    paths = [ROOT, ROOT / "operator", ROOT / "tests"]
    hooks = ["-p", "support.watches.left_threads", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *hooks, "test_three.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 error" in done.stdout, done.stdout
    assert "3 passed" in done.stdout, done.stdout
    left = "test_tries_again_and_again has left at work: Thread-1 (run) in device_plugin.kube"
    assert left in done.stdout
