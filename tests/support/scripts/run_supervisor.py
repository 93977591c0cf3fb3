"""The agent's real supervisor with two child functions that only log their start and end.

usage: run_supervisor.py DIRECTORY beating|hanging|failing|kubelet-hangs|standby HUNG_AFTER_S SETTLED_S

Each line of DIRECTORY/log has a process and a message: at its start its ID, preceded by "collects"
if its garbage collector examines objects shared with the supervisor; at its end "ended".
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Listener
from pathlib import Path
from types import FrameType

from device_plugin import agent_process, app, kubelet_process
from device_plugin.config import Settings
from device_plugin.dp.meeting import Meeting
from device_plugin.errors import ClusterError

LEAVING_S = 0.3
directory, behaviour = Path(sys.argv[1]), sys.argv[2]
hung_after_s, settled_s = float(sys.argv[3]), float(sys.argv[4])


def say(who: str, what: object) -> None:
    with (directory / "log").open("a") as log:
        log.write(f"{who} {what}\n")


def live(who: str, leaving_s: float, each: Callable[[], None]) -> None:
    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        time.sleep(leaving_s)
        say(who, "ended")
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    if any(one is Settings for one in gc.get_objects()):
        say(who, "collects")
    say(who, os.getpid())
    while True:
        each()
        time.sleep(0.02)


def agent(settings: Settings, meeting: Meeting, key: bytes, beat: Callable[[], None]) -> None:
    del settings, meeting, key
    if behaviour == "failing":
        raise ClusterError("cannot configure access to the API server")
    beat()
    live("agent", LEAVING_S, beat if behaviour in ("beating", "kubelet-hangs") else lambda: None)


def kubelet(
    settings: Settings, listener: Listener, meeting: Meeting, beat: Callable[[], None]
) -> None:
    del settings, listener, meeting
    live("kubelet", 0.0, beat if behaviour != "kubelet-hangs" else lambda: None)


agent_process.run = agent  # type: ignore[assignment]
kubelet_process.run = kubelet  # type: ignore[assignment]
SETTINGS = Settings("node-1", "agent", standby=behaviour == "standby")
LINK = directory / "link"
sys.exit(app.Supervisor(SETTINGS, LINK, hung_after_s, settled_s, hung_after_s).run())
