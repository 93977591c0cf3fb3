"""The operator's life: probes, lease, watches, workers; it ends when any of them does."""

import asyncio
import logging
import signal
import time
from contextlib import suppress
from typing import Any, cast

import kopf
from pydantic import ValidationError

from gpu_operator import errors
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.app.health import Health
from gpu_operator.config import Config, Identity
from gpu_operator.controllers.world import ChartPolicy
from gpu_operator.handlers import watch
from gpu_operator.handlers.queue import WorkQueue
from gpu_operator.handlers.store import Store
from gpu_operator.handlers.worker import Worker
from gpu_operator.kube.client import LightkubeCluster
from gpu_operator.kube.lease import Elector
from gpu_operator.kube.port import Kube

_WORKERS = 4
_MISSED_RESYNCS = 5
_RETRY_S = 1.0
_log = logging.getLogger(__name__)


async def serve(config: Config, identity: Identity) -> int:
    """Reconcile until SIGTERM; return the exit status, 1 when something ended by itself."""
    kube = LightkubeCluster()
    owners = await _owners(config, kube)
    elector = Elector(
        kube,
        config.lease_name,
        identity.namespace,
        identity.pod_name,
        config.lease_seconds,
        owners=owners,
    )
    store = Store(_chart_policy(config, owners))
    worker = Worker(kube, store, WorkQueue(), config, identity.namespace, elector.fence)
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)

    def alive() -> bool:
        age_s = time.monotonic() - worker.last_resync
        return not elector.is_leader or age_s < _MISSED_RESYNCS * config.resync_seconds

    leading = asyncio.create_task(_lead(elector, worker, store, identity.namespace))
    stopping = asyncio.create_task(stop.wait())
    try:
        async with Health(config.health_port, alive):
            await asyncio.wait({leading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            failure = leading.exception() if leading.done() else None
            if failure is not None:
                _log.critical("ended by itself: %r", failure)
            return 1 if failure is not None else 0
    finally:
        for task in (leading, stopping):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        await elector.release()
        await kube.close()


async def _owners(config: Config, kube: Kube) -> tuple[dict[str, Any], ...]:
    """Find what is deleted with the release, for what the operator itself creates once."""
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


def _chart_policy(config: Config, owners: tuple[dict[str, Any], ...]) -> ChartPolicy | None:
    """Read the chart's policy. Raises ConfigError."""
    if config.policy is None:
        return None
    try:
        return ChartPolicy(GPUPolicySpec.model_validate(config.policy), owners)
    except ValidationError as err:
        raise errors.ConfigError(f"policy: {err}") from err


async def _lead(elector: Elector, worker: Worker, store: Store, namespace: str) -> None:
    """Wait for the lease, then work; return when kopf, which takes the signals over, was told to
    stop. Raises NotLeader, or whatever else ended a part.
    """
    await _served(worker, elector)
    parts = {
        asyncio.create_task(elector.keep(), name="lease"),
        asyncio.create_task(worker.resync(), name="resync"),
        asyncio.create_task(_watch(store, worker, namespace), name="watch"),
        *(asyncio.create_task(worker.run(), name=f"worker-{n}") for n in range(_WORKERS)),
    }
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)


async def _served(worker: Worker, elector: Elector) -> None:
    """Return once the lease is ours and the API server serves our kinds.

    Right after an installation, or while somebody deletes the definitions, it does not; the lease
    is kept meanwhile.
    """
    while True:
        await elector.acquire()
        try:
            await worker.list_all()
        except errors.KubeError as err:
            _log.warning("waiting for the custom resources: %s", err)
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def _watch(store: Store, worker: Worker, namespace: str) -> None:
    await kopf.operator(
        registry=watch.registry(store, worker.changed),
        settings=watch.settings(),
        standalone=True,
        identity=cast(Any, "tessera-operator"),  # else it asks for a user, and there is none
        namespaces=[namespace],
    )
