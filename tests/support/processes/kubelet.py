"""The kubelet's side of a node: pod resources over gRPC, its device manager's checkpoint, and log
directories of pods.
"""

import json
from collections.abc import Iterable
from concurrent import futures
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from device_plugin.proto import podresources_pb2 as pb, podresources_pb2_grpc as pb_grpc


class FakeKubelet(pb_grpc.PodResourcesListerServicer):
    """``pods`` is List's answer: (namespace, name, device ids by resource).

    ``claims`` maps a pod's name to the CDI devices that it received through ResourceClaims.
    """

    def __init__(self, root: Path) -> None:
        self.dir = root / "kubelet"
        self.pod_logs = root / "pods"
        self.socket = self.dir / "pod-resources" / "kubelet.sock"
        self.checkpoint = self.dir / "device-plugins" / "kubelet_internal_checkpoint"
        self.pods: list[tuple[str, str, dict[str, list[str]]]] = []
        self.claims: dict[str, list[str]] = {}
        self.allocatable: dict[str, list[str]] = {}
        """Healthy devices by resource, as in their plugins' lists: GetAllocatableResources's
        answer.
        """
        self.driver = "gpu.tessera.dev"
        self.refuse = False
        self.lists = 0
        self.socket.parent.mkdir(parents=True)
        self.pod_logs.mkdir()
        self._server: grpc.Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        pb_grpc.add_PodResourcesListerServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(0).wait(60)
            self._server = None

    def log_directory(self, namespace: str, name: str, uid: str) -> Path:
        made = self.pod_logs / f"{namespace}_{name}_{uid}"
        made.mkdir()
        return made

    def write_checkpoint(self, entries: Iterable[tuple[str, str, str, list[str]]]) -> None:
        """Replace the device manager's checkpoint: pod UID, container, resource and device ids."""
        document = {
            "Data": {
                "PodDeviceEntries": [
                    {
                        "PodUID": uid,
                        "ContainerName": container,
                        "ResourceName": resource,
                        "DeviceIDs": {"-1": ids},
                        "AllocResp": "",
                    }
                    for uid, container, resource, ids in entries
                ],
                "RegisteredDevices": {},
            },
            "Checksum": 0,
        }
        self.checkpoint.parent.mkdir(exist_ok=True)
        fresh = self.checkpoint.with_suffix(".new")
        fresh.write_text(json.dumps(document))
        fresh.chmod(0o600)
        fresh.replace(self.checkpoint)

    def List(
        self, request: pb.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.ListPodResourcesResponse:
        self.lists += 1
        if self.refuse:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        response = pb.ListPodResourcesResponse()
        for namespace, name, devices in self.pods:
            pod = response.pod_resources.add(namespace=namespace, name=name)
            container = pod.containers.add(name="main")
            for resource, ids in devices.items():
                for device in ids:  # one entry for each device, as the kubelet does
                    container.devices.add(resource_name=resource, device_ids=[device])
            if name in self.claims:
                dynamic = container.dynamic_resources.add(claim_name="c", claim_namespace=namespace)
                given = dynamic.claim_resources.add(driver_name=self.driver)
                given.cdi_devices.extend(pb.CDIDevice(name=one) for one in self.claims[name])
        return response

    def GetAllocatableResources(
        self, request: pb.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> pb.AllocatableResourcesResponse:
        if self.refuse:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        response = pb.AllocatableResourcesResponse()
        for resource, ids in self.allocatable.items():
            for device in ids:
                response.devices.add(resource_name=resource, device_ids=[device])
        return response
