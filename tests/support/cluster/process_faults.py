"""Kills and stops each process of each DaemonSet and Deployment, one at a time.

A row is a kind of restart (``cluster_restarts``). A process that is stopped keeps its sockets, as
one that hangs or gets no CPU time.
"""

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from support.cluster.cluster_restarts import BOTH_NODES, NO_PLUGIN, Over, Restart
from support.cluster.kubectl import Cluster, in_node
from support.watches.rotation import VARIABLE


@dataclass(frozen=True, slots=True)
class Process:
    """A process by the arguments of pgrep that find it on its node.

    ``hang_s`` is the longest time after which Tessera has ended the process if it hangs; 0 if
    nothing needs it so urgently, and the test lets it continue.
    """

    pgrep: tuple[str, ...]
    hang_s: float = 0.0
    own: Mapping[str, tuple[str, ...]] | None = None
    component: str = ""
    """The component whose container ends with the process."""
    leads_session: bool = False
    """Whether the process leads a session, unlike others that pgrep finds."""
    is_on_gpu_nodes: bool = True


PROCESSES: Final = {
    "tessera-kubelet": Process(("-x", "tessera-kubelet"), 20, NO_PLUGIN),
    "tessera-standby": Process(("-x", "tessera-standby"), 20),
    "tessera-agent": Process(("-x", "tessera-agent"), 45),
    # The supervisor of the agent's container, the older of two.
    "the agent's main process": Process(("-o", "-x", "tessera-device-"), 0, NO_PLUGIN, "node"),
    "the standby's main process": Process(("-n", "-x", "tessera-device-"), 0, NO_PLUGIN, "node"),
    "gpud": Process(("-o", "-f", "bin/tessera-gpud( |$)"), 60, component="gpud"),
    # It starts workers, which have its command line. gpud ends it if it does not answer.
    "gpud's zygote": Process(("-f", "vgpu_sim.zygote( |$)"), 30, leads_session=True),
    "hcad": Process(("-o", "-f", "bin/tessera-hcad( |$)")),
    "netd": Process(("-o", "-f", "bin/tessera-netd( |$)")),
    "linkd": Process(("-o", "-f", "bin/tessera-linkd( |$)")),
    "exporter": Process(("-o", "-f", "bin/tessera-exporter( |$)")),
    "operator": Process(("-o", "-f", "bin/tessera-operator( |$)"), is_on_gpu_nodes=False),
    "console": Process(("-o", "-f", "bin/tessera ui( |$)"), is_on_gpu_nodes=False),
}


def _pids(node: str, process: Process) -> dict[str, str]:
    """Return the state (of ps) of each matching process that is not a zombie, by node and PID."""
    nodes = [node]
    if not process.is_on_gpu_nodes:
        nodes = [one["metadata"]["name"] for one in Cluster().get("nodes")["items"]]
    text = f"pgrep {' '.join(map(_quote, process.pgrep))} | xargs -r ps -o pid=,stat= -p; true"
    return {
        f"{each}/{line.split()[0]}": line.split()[1]
        for each in nodes
        for line in in_node(each, "sh", "-c", text).splitlines()
        if not line.split()[1].startswith("Z")
        and (not process.leads_session or "s" in line.split()[1])
    }


def _quote(word: str) -> str:
    return f"'{word}'"


def _signal(pids: Mapping[str, str], name: str) -> None:
    for pid in pids:
        where, _, number = pid.partition("/")
        in_node(where, "sh", "-c", f"kill -{name} {number} 2>/dev/null; true")


def _kill(process: Process, node: str) -> Over:
    victims = _pids(node, process)
    assert victims, f"no process {process.pgrep} on {node}"
    _signal(victims, "KILL")
    return lambda: bool(_pids(node, process)) and victims.keys().isdisjoint(_pids(node, process))


def _stop(process: Process, node: str) -> Over:
    victims = _pids(node, process)
    assert victims, f"no process {process.pgrep} on {node}"
    _signal(victims, "STOP")
    until = datetime.datetime.now() + datetime.timedelta(seconds=15)

    def over() -> bool:
        if not process.hang_s:  # nothing ends it in time, and nothing has to
            if datetime.datetime.now() >= until:
                _signal(victims, "CONT")
            return datetime.datetime.now() >= until
        processes = _pids(node, process)
        return bool(processes) and victims.keys().isdisjoint(processes)

    return over


def _row(process: Process, *, stops: bool) -> Restart:
    return Restart(
        partial(_stop if stops else _kill, process),
        lasts_s=max(8.0, process.hang_s if stops else 0.0),
        own=process.own or {},
        kills=process.component,
        on_one_node=process.is_on_gpu_nodes,
        disturbs=BOTH_NODES if process.is_on_gpu_nodes else ("control-plane",),
    )


KILLED: Final = {f"{name} killed": _row(one, stops=False) for name, one in PROCESSES.items()}
STOPPED: Final = {f"{name} stopped": _row(one, stops=True) for name, one in PROCESSES.items()}


def in_rotation() -> list[str]:
    """Return one row of each table: another one each day, or as TESSERA_ROTATION says."""
    number = int(os.environ.get(VARIABLE) or datetime.date.today().toordinal())
    return [list(rows)[number % len(rows)] for rows in (KILLED, STOPPED)]
