"""The agent's process: reconcile loop, event follower, watch and probes."""

import http
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Never

from device_plugin.agent import health, libraries
from device_plugin.agent.claims import ClaimOffer, NoClaims, PublishedOffer
from device_plugin.agent.events import EventFollower
from device_plugin.agent.functions import FunctionBinder
from device_plugin.agent.holders import Holders
from device_plugin.agent.leaving import departure
from device_plugin.agent.loop import GPUD_LOST_S, Agent
from device_plugin.agent.offer_record import OfferRecord
from device_plugin.agent.orphans import Orphans
from device_plugin.agent.passes import Pulse
from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.reporting.rivals import Rivals
from device_plugin.agent.reservations import Reservations
from device_plugin.agent.second_layer import LinkCarrier
from device_plugin.agent.tables import TableCarrier
from device_plugin.backends.gpud import Gpud
from device_plugin.backends.hcad import Hcad
from device_plugin.backends.linkd import Linkd
from device_plugin.backends.presence import Presence
from device_plugin.config import Settings
from device_plugin.dp.link import Link
from device_plugin.dp.linked_sides import LinkedSides
from device_plugin.dp.meeting import Meeting
from device_plugin.dra.publisher import Publisher
from device_plugin.inventory.functions import functions_of
from device_plugin.kube.claims import ClaimsKube
from device_plugin.kube.gpu_watch import GpuWatch
from device_plugin.kube.slices import SliceKube
from device_plugin.kube.tables import TablesKube
from device_plugin.metrics import METRICS
from device_plugin.podresources import checkpoint
from device_plugin.podresources.checkpoint import Checkpoint
from device_plugin.podresources.client import PodResources
from gpu_operator.api.claim_devices import DRIVER

_BEAT_S = 5.0
_LINKD_S = 2.0  # linkd's limit for loading rules, while the engine waits
_log = logging.getLogger(__name__)


def run(settings: Settings, meeting: Meeting, key: bytes, beat: Callable[[], None]) -> Never:
    """Run all threads of the agent until SIGTERM, and then end the process.

    While the agent is alive, ``beat`` is called every few seconds.

    Raises:
        AgentError: there is neither a service account nor a KUBECONFIG file for the API server.
        OSError: a file, socket or port is not available.
    """
    # a terminal's Ctrl-C: the supervisor stops this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # blocked in all threads; only the thread that waits for it receives it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    deadline = departure.Deadline(settings.leave_s)
    # one client, because each client reads all trusted certificates
    kube = ClaimsKube(settings.node_name)
    wake = threading.Event()
    presence = Presence(GPUD_LOST_S)
    gpud = Gpud(settings.gpud_socket, presence=presence)
    reservations = Reservations(settings.cdi_dir, kube, wake.set)
    pods = PodResources(
        settings.pod_resources_socket,
        settings.pod_logs_dir,
        checkpoint=Checkpoint(settings.device_plugins_dir / checkpoint.FILE_NAME),
        reservations=reservations.list_prepared if settings.dra else lambda: (),
    )
    holders = Holders(pods, gpud, settings.pod_name)
    notices = Notices(kube)
    directory = libraries.install(settings.libraries_dir)
    links = [Link(address, key) for address in meeting.addresses]
    kubelet_side = LinkedSides(links)
    functions = functions_of(settings.node_name, settings.hcas, settings.hca_dir)
    hcad = Hcad(settings.hcad_socket)
    binder = FunctionBinder(functions, settings.hcas.rate_gbps, hcad, holders, kube, notices)
    gpus = GpuWatch(kube, wake.set)
    claims = _offer_to_claims(settings, notices) if settings.dra else NoClaims()
    agent = Agent(
        settings,
        gpud,
        holders,
        gpus,
        kubelet_side,
        directory,
        wake,
        notices,
        binder,
        claims,
        Rivals(pods, notices),
        kube.node_status,
        record=OfferRecord(settings.offer_record, settings.node_name),
        presence=presence,
    )
    metrics = METRICS if settings.metrics else None
    alive = meeting.alive_file(standby=False)
    probes = health.server(
        settings.health_port,
        agent.pulse,
        metrics=metrics,
        supervisor_silent_s=lambda: time.time() - alive.stat().st_mtime,
    )

    threading.excepthook = _die

    def on_allocation() -> None:
        wake.set()
        binder.expect_allocation()

    follower = EventFollower(gpud, holders, notices, wake.set, reservations.read_again)
    for link in links:
        _start("kubelet-side", partial(link.follow, on_allocation))
    _start("gpud-events", follower.run)
    _start("pod-events", notices.run)
    _start("gpu-watch", gpus.run)
    _start("reconcile", agent.run)
    if settings.dra:
        orphans = Orphans(gpud, holders, kube, notices, settings.node_name, settings.cdi_dir)
        _start("claims", orphans.run)
        _start("reservations", reservations.run)
    if functions:
        _start("hca-functions", binder.run)
        _carry_tables(settings, notices)
    threading.Thread(target=probes.serve_forever, name="probes", daemon=True).start()
    beat()
    _start("heart", lambda: _give_signs_of_life(agent.pulse, beat))
    deadline.wait_for_signal()
    departure.depart(agent, kube.node_status, deadline)
    os._exit(0)  # no thread needs a larger stack


def _offer_to_claims(settings: Settings, notices: Notices) -> ClaimOffer:
    """Start publishing ResourceSlices, on separate connections because publishing takes long."""
    publisher = Publisher(SliceKube(settings.node_name, DRIVER))
    _start("dra-watch", publisher.follow)
    _start("dra-slices", publisher.run)
    return PublishedOffer(settings, publisher, notices)


def _carry_tables(settings: Settings, notices: Notices) -> None:
    """Start carrying tables on separate connections, because switching large tables takes long."""
    kube = TablesKube(settings.node_name, settings.namespace)
    links = LinkCarrier(Linkd(settings.linkd_socket, _LINKD_S), notices)
    carrier = TableCarrier(kube, Hcad(settings.hcad_socket), notices, links=links)
    _start("rdma-tables", carrier.run)
    _start("rdma-watch", carrier.follow)
    _start("rdma-heartbeat", carrier.renew_heartbeat)


def _start(name: str, body: Callable[[], Never]) -> None:
    threading.Thread(target=body, name=name, daemon=True).start()


def _die(failure: threading.ExceptHookArgs) -> None:
    """End the process when a thread fails, so that the supervisor restarts it."""
    threading.__excepthook__(failure)
    os._exit(1)


def _give_signs_of_life(pulse: Pulse, beat: Callable[[], None]) -> Never:
    while True:
        time.sleep(_BEAT_S)
        status, _ = health.evaluate_probe("/healthz", pulse, time.monotonic())
        if status == http.HTTPStatus.OK:
            beat()
