"""The DRA driver's services for the kubelet, and their registration.

The registration socket is in the kubelet's plugin registry, the services' socket is in the
driver's own directory. Both names contain the agent pod's name. So two drivers are registered
during a rolling update, and neither removes the other's socket; the kubelet calls a driver that
answers.
"""

import logging
import os
import re
import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Final

import grpc

from device_plugin.dp.registration import UNDER_WAY_S, remove_dead
from device_plugin.dra.health import HealthService
from device_plugin.dra.preparing import Prepared, Preparer
from device_plugin.errors import ClaimError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.metrics import METRICS
from device_plugin.proto import (
    dra_pb2 as pb,
    dra_pb2_grpc as pb_grpc,
    drahealth_pb2_grpc,
    registration_pb2,
    registration_pb2_grpc,
)
from gpu_operator.api.claim_devices import DRIVER

VERSIONS: Final = ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth")
_PREPARING: Final = (
    24  # concurrent calls: waiting calls must not block the calls that they wait for
)
_THREADS: Final = 2 * _PREPARING
_log = logging.getLogger(__name__)


class DraService:
    """Implements the kubelet's service ``DRAPlugin``."""

    def __init__(self, preparer: Preparer, preparing: int = _PREPARING) -> None:
        """Initialize; at most ``preparing`` claims are prepared at a time; others fail."""
        self._preparer = preparer
        self._places = threading.BoundedSemaphore(preparing)

    def NodePrepareResources(  # noqa: N802 (kubelet API)
        self, request: pb.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodePrepareResourcesResponse:
        """Prepare each claim; return its devices, or why it cannot have them."""
        response = pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            answer = response.claims[claim.uid]
            try:
                for prepared in self._prepare(ClaimRef(claim.namespace, claim.name, claim.uid)):
                    answer.devices.append(_device(prepared))
            except ClaimError as err:
                _log.warning("claim %s/%s: %s", claim.namespace, claim.name, err)
                answer.error = str(err)
        return response

    def NodeUnprepareResources(  # noqa: N802
        self, request: pb.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodeUnprepareResourcesResponse:
        """Unprepare each claim; an unknown claim counts as unprepared."""
        response = pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer = response.claims[claim.uid]
            try:
                with METRICS.counting_kubelet_call("NodeUnprepareResources"):
                    self._preparer.unprepare(claim.uid)
            except ClaimError as err:
                _log.warning("claim %s/%s: %s", claim.namespace, claim.name, err)
                answer.error = str(err)
        return response

    def _prepare(self, ref: ClaimRef) -> tuple[Prepared, ...]:
        if not self._places.acquire(blocking=False):
            raise ClaimError("too many claims are already waiting for slices that are in use")
        try:
            with METRICS.counting_kubelet_call("NodePrepareResources"):
                return self._preparer.prepare(ref)
        finally:
            self._places.release()


class DraRegistration:
    """Reports the driver's service and endpoint to the kubelet."""

    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint

    def GetInfo(  # noqa: N802 (kubelet API)
        self, request: registration_pb2.InfoRequest, context: grpc.ServicerContext
    ) -> registration_pb2.PluginInfo:
        return registration_pb2.PluginInfo(
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(self._endpoint),
            supported_versions=VERSIONS,
        )

    def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration_pb2.RegistrationStatus, context: grpc.ServicerContext
    ) -> registration_pb2.RegistrationStatusResponse:
        METRICS.count_registration(accepted=request.plugin_registered)
        if request.plugin_registered:
            _log.info("%s: registered with the kubelet", DRIVER)
        else:
            _log.error("%s: the kubelet refused: %s", DRIVER, request.error)
        return registration_pb2.RegistrationStatusResponse()


class DraServer:
    """Serves the socket for registration, and the socket for the DRA and health services."""

    def __init__(
        self,
        service: DraService,
        health: HealthService,
        registry_dir: Path,
        driver_dir: Path,
        pod_name: str,
    ) -> None:
        """Initialize; ``driver_dir`` is ``plugins/<driver>`` below the kubelet's directory."""
        suffix = re.sub(r"[^a-zA-Z0-9-]", "-", pod_name)[-12:]
        self._health = health
        self._endpoint = driver_dir / f"dra-{suffix}.sock"
        self._registration = registry_dir / f"{DRIVER}-{suffix}-reg.sock"
        self._services = grpc.server(futures.ThreadPoolExecutor(_THREADS))
        pb_grpc.add_DRAPluginServicer_to_server(service, self._services)
        drahealth_pb2_grpc.add_DRAResourceHealthServicer_to_server(health, self._services)
        self._registry = grpc.server(futures.ThreadPoolExecutor(2))
        registration_pb2_grpc.add_RegistrationServicer_to_server(
            DraRegistration(self._endpoint), self._registry
        )

    def start(self) -> None:
        """Start to serve, and then register the driver; the kubelet connects within about a second.

        Raises:
            OSError: a socket cannot be bound.
        """
        remove_dead(self._endpoint.parent, "dra-*.sock")
        remove_dead(self._registration.parent, f"{DRIVER}-*-reg.sock")
        for server, path in (
            (self._services, self._endpoint),
            (self._registry, self._registration),
        ):
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            try:
                server.add_insecure_port(f"unix:{path}")
            except RuntimeError as err:
                raise OSError(f"{path}: {err}") from err
            server.start()
            os.chmod(path, 0o600)

    def begin_stop(self) -> Callable[[], None]:
        """Unregister the driver and begin to stop the servers.

        Return a function that waits until calls in progress have ended.
        """
        registry = self._registry.stop(grace=0.5)
        self._registration.unlink(missing_ok=True)
        self._health.stop()
        services = self._services.stop(UNDER_WAY_S)

        def wait() -> None:
            registry.wait(5)
            services.wait(UNDER_WAY_S + 2)
            self._endpoint.unlink(missing_ok=True)

        return wait


def _device(prepared: Prepared) -> pb.Device:
    return pb.Device(
        request_names=[prepared.allocated.request],
        pool_name=prepared.allocated.pool,
        device_name=prepared.allocated.device,
        cdi_device_ids=prepared.cdi_ids,
        share_id=prepared.allocated.share_id or None,
    )
