"""Runs the operator: probes, lease, watches and workers. It exits when any of them ends."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import kopf
from prometheus_client.registry import Collector
from pydantic import ValidationError

from gpu_operator import errors, metrics
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.app.health import Health
from gpu_operator.app.object_metrics import ObjectCollector
from gpu_operator.config import Config, Identity
from gpu_operator.controllers.common.world import ChartPolicy
from gpu_operator.engine import watch
from gpu_operator.engine.claim_loop import ClaimLoop
from gpu_operator.engine.parts import until_one_ends
from gpu_operator.engine.queue import WorkQueue
from gpu_operator.engine.rdma_loop import RdmaLoop
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from gpu_operator.kube.client import KubernetesCluster
from gpu_operator.kube.lease import Elector, Term
from gpu_operator.kube.lease_thread import LeaseThread
from gpu_operator.kube.port import Cluster, Kube

_WORKERS = 4
_MISSED_RESYNCS = 5
_RETRY_S = 1.0
_LONGEST_REFUSAL_S = 60.0
_log = logging.getLogger(__name__)

Part = Callable[[], Coroutine[Any, Any, None]]
"""A coroutine function that runs beside the workers while this operator leads."""


async def serve(config: Config, identity: Identity) -> int:
    """Run the operator until SIGTERM, and return the exit status.

    The exit status is 1 if one of the operator's tasks ended by itself.
    """
    kube = await KubernetesCluster.connect()
    try:
        return await _serve(config, identity, kube)
    finally:
        await kube.close()


async def _serve(config: Config, identity: Identity, kube: Cluster) -> int:
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    owners = await _await_owners(config, kube, stop)
    if owners is None:
        return 0
    caught_up = threading.Event()
    election = config.leader_election
    term = Term(
        election.lease_duration_seconds,
        election.renew_deadline_seconds,
        election.retry_period_seconds,
    )

    def candidate(own_connection: Kube) -> Elector:
        return Elector(
            own_connection,
            config.lease_name,
            identity.namespace,
            identity.pod_name,
            term,
            owners=owners,
            configuration=lambda: identity.configuration if caught_up.is_set() else "",
        )

    store = Store(_read_chart_policy(config, owners))
    async with LeaseThread(KubernetesCluster.connect, candidate) as lease:
        queue = WorkQueue()
        worker = Worker(kube, store, queue, config, identity.namespace, lease.fence, caught_up.set)
        rdma = config.node.rdma.enabled
        policies = RdmaLoop(kube, identity.namespace, owners, lease.fence) if rdma else None
        dra = config.node.dra
        claims = None
        if dra.enabled:
            claims = ClaimLoop(
                kube, store.world, lease.fence, trigger_kubelets=dra.trigger_kubelets
            )
        patience_s = _MISSED_RESYNCS * config.resync_seconds
        reflectors = watch.make_reflectors(kube, store, worker.on_change, identity.namespace)
        extra_parts: list[Part] = [reflector.run for reflector in reflectors]
        extra_parts += [loop.run for loop in (policies, claims) if loop is not None]
        leading = asyncio.create_task(_lead(lease, worker, store, identity.namespace, extra_parts))
        stopping = asyncio.create_task(stop.wait())
        try:
            alive = partial(_is_alive, lease, worker, patience_s, policies, claims)
            collector = ObjectCollector(
                lambda: worker.seen if lease.is_leader else None, worker.rooms
            )
            metrics.QUEUE_DEPTH.labels("main").set_function(lambda: len(queue))
            metrics.LEADER.labels(config.lease_name).set_function(lambda: lease.is_leader)
            answer = metrics.exposition if config.metrics else None
            async with Health(config.health_port, alive, answer), _register_collector(collector):
                await asyncio.wait({leading, stopping}, return_when=asyncio.FIRST_COMPLETED)
                ended = leading.done() and not leading.cancelled()
                failure = leading.exception() if ended else None
                if failure is not None:
                    _log.critical("a part of the operator ended by itself: %r", failure)
                return 1 if failure is not None else 0
        finally:
            for task in (leading, stopping):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task


@asynccontextmanager
async def _register_collector(collector: Collector) -> AsyncIterator[None]:
    metrics.REGISTRY.register(collector)
    try:
        yield
    finally:
        metrics.REGISTRY.unregister(collector)


def _is_alive(
    lease: LeaseThread,
    worker: Worker,
    patience_s: float,
    *loops: RdmaLoop | ClaimLoop | None,
) -> bool:
    """Return whether a leader's resyncs are on time and no controller is stuck."""
    age_s = max(
        time.monotonic() - worker.last_resync,
        worker.stuck_for_s,
        *(loop.stuck_for_s for loop in loops if loop is not None),
    )
    return not lease.is_leader or age_s < patience_s


async def _await_owners(
    config: Config, kube: Kube, stop: asyncio.Event
) -> tuple[dict[str, Any], ...] | None:
    """Return the owner references once the API server answers, None if ``stop`` is set before.

    Probes succeed meanwhile: a restart of the operator, with its back-off, would only come later.
    An API server that starts also refuses valid requests: with 401 until it has read the accounts,
    403 until it has read the roles, and 404 until it serves the kind. A refusal that lasts is
    raised, because its cause is the configuration: the account, its rights, or the ClusterRole.

    Raises:
        KubeError: for ``_LONGEST_REFUSAL_S`` there was no answer but refusals.
    """
    async with Health(config.health_port, lambda: True):
        refused_at: float | None = None
        reported: type[errors.KubeError] | None = None
        while not stop.is_set():
            try:
                return await _find_owners(config, kube)
            except errors.KubeError as err:
                if type(err) is not reported:
                    _log.warning("waiting for the API server: %s", err)
                reported = type(err)
                if isinstance(err, errors.Unreachable):
                    refused_at = None
                elif refused_at is None:
                    refused_at = time.monotonic()
                elif time.monotonic() - refused_at > _LONGEST_REFUSAL_S:
                    raise
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _RETRY_S)
    return None


async def _find_owners(config: Config, kube: Kube) -> tuple[dict[str, Any], ...]:
    """Return owner references to the release's ClusterRole, for objects that the operator
    creates.
    """
    if not config.owner_cluster_role:
        return ()
    role = await kube.get("ClusterRole", config.owner_cluster_role)
    owner = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": config.owner_cluster_role,
        "uid": role["metadata"]["uid"],
    }
    return (owner,)


def _read_chart_policy(config: Config, owners: tuple[dict[str, Any], ...]) -> ChartPolicy | None:
    """Parse the chart's policy. Raises ConfigError if it is invalid."""
    if config.policy is None:
        return None
    try:
        return ChartPolicy(GPUPolicySpec.model_validate(config.policy), owners)
    except ValidationError as err:
        raise errors.ConfigError(f"policy: {err}") from err


async def _lead(
    lease: LeaseThread,
    worker: Worker,
    store: Store,
    namespace: str,
    extra_parts: Sequence[Part] = (),
) -> None:
    """Wait for the lease, then run all parts. Return when kopf, which handles signals, is stopped.

    Raises:
        NotLeader: the lease was lost. Other exceptions of a part are raised unchanged.
    """
    await lease.acquire()
    await until_one_ends(lease.keep(), _run_controllers(worker, store, namespace, extra_parts))


async def _run_controllers(
    worker: Worker,
    store: Store,
    namespace: str,
    extra_parts: Sequence[Part],
) -> None:
    await _wait_for_custom_resources(worker)
    workers = (worker.run() for _ in range(_WORKERS))
    parts = (part() for part in extra_parts)
    await until_one_ends(worker.resync(), _run_kopf(store, worker, namespace), *parts, *workers)


async def _wait_for_custom_resources(worker: Worker) -> None:
    """Return once the API server serves the custom resources.

    It does not serve them right after an installation, or while a user deletes the CRDs.
    """
    while True:
        try:
            await worker.list_all()
        except errors.KubeError as err:
            _log.warning("waiting for the custom resources: %s", err)
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def _run_kopf(store: Store, worker: Worker, namespace: str) -> None:
    await kopf.operator(
        registry=watch.make_registry(store, worker.on_change),
        settings=watch.make_settings(),
        standalone=True,
        identity=cast(
            Any, "tessera-operator"
        ),  # otherwise kopf looks up the OS user, which does not exist in the container
        namespaces=[namespace],
    )
