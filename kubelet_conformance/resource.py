"""An extended resource as the kubelet sees it: the plugin's service and the lists that it sends."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import grpc

from device_plugin.proto import deviceplugin_pb2 as pb, deviceplugin_pb2_grpc as pb_grpc

HEALTHY: Final = "Healthy"
CALL_S = 30.0
"""The limit for Allocate in seconds. The kubelet waits longer, but the pod would start late."""


class Refusal(Exception):
    """An error that a plugin returned: its gRPC status and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")


class Resource:
    """Follows a plugin's ``ListAndWatch`` stream, as the kubelet does. Thread-safe.

    The stream is opened when the object is constructed. ``registered_options`` are the options
    in the plugin's Register call. They are None if the plugin made no such call, because it was
    found by its socket in the registry.
    """

    def __init__(
        self, name: str, endpoint: Path, registered_options: pb.DevicePluginOptions | None
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.registered_options = registered_options
        self._channel = grpc.insecure_channel(f"unix:{endpoint}")
        self._stub = pb_grpc.DevicePluginStub(self._channel)
        self._changed = threading.Condition()
        self._lists: list[tuple[pb.Device, ...]] = []
        self._ended = False
        try:
            self.options = self._call(self._stub.GetDevicePluginOptions, pb.Empty())
        except Refusal:
            self._channel.close()
            raise
        threading.Thread(target=self._follow, name=f"follow {name}", daemon=True).start()

    @property
    def lists(self) -> list[tuple[pb.Device, ...]]:
        """Return every list that the plugin has sent so far, the newest last."""
        with self._changed:
            return list(self._lists)

    @property
    def ended(self) -> bool:
        """Return whether the plugin's stream has ended; its devices then count as unhealthy."""
        with self._changed:
            return self._ended

    def devices(self) -> Mapping[str, str]:
        """Return the health of each device in the newest list, by device id."""
        with self._changed:
            return {device.ID: device.health for device in self._lists[-1]} if self._lists else {}

    def healthy(self) -> list[str]:
        """Return the ids of the healthy devices, which may be allocated, sorted."""
        return sorted(name for name, health in self.devices().items() if health == HEALTHY)

    def wait(self, condition: Callable[["Resource"], bool], within_s: float) -> bool:
        """Wait for a condition, at most ``within_s`` seconds; return whether it became true.

        The condition is tested whenever the plugin sends a list, and when its stream ends.
        """
        deadline = time.monotonic() + within_s
        while True:
            with self._changed:
                state = len(self._lists), self._ended
            if condition(self):
                return True
            with self._changed:
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    return False
                self._changed.wait_for(
                    lambda state=state: (len(self._lists), self._ended) != state,  # type: ignore[misc]
                    remaining_s,
                )

    def first_list_again(self, within_s: float) -> Mapping[str, str]:
        """Open a second stream and return the list that it begins with. Raises Refusal."""
        stream = self._stub.ListAndWatch(pb.Empty(), timeout=within_s)
        try:
            return {device.ID: device.health for device in next(stream).devices}
        except grpc.RpcError as err:
            raise refusal(err) from err
        finally:
            stream.cancel()

    def allocate(self, *containers: list[str]) -> list[pb.ContainerAllocateResponse]:
        """Allocate devices to the containers of one pod. Raises Refusal.

        Each argument lists the device ids for one container.
        """
        request = pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        return list(self._call(self._stub.Allocate, request).container_responses)

    def prefer(self, available: list[str], must_include: list[str], size: int) -> list[str]:
        """Return the ``size`` devices that the plugin prefers among those available. Raises
        Refusal.
        """
        container_request = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available,
            must_include_deviceIDs=must_include,
            allocation_size=size,
        )
        request = pb.PreferredAllocationRequest(container_requests=[container_request])
        (answer,) = self._call(self._stub.GetPreferredAllocation, request).container_responses
        return list(answer.deviceIDs)

    def pre_start(self, ids: list[str]) -> None:
        """Call PreStartContainer for a container with these devices. Raises Refusal."""
        self._call(self._stub.PreStartContainer, pb.PreStartContainerRequest(devices_ids=ids))

    def close(self) -> None:
        """Close the connection, as a stopping kubelet does."""
        self._channel.close()

    def _follow(self) -> None:
        try:
            for each in self._stub.ListAndWatch(pb.Empty()):
                with self._changed:
                    self._lists.append(tuple(each.devices))
                    self._changed.notify_all()
        except (grpc.RpcError, ValueError):  # ValueError: closed before the call began
            pass
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=CALL_S)
        except grpc.RpcError as err:
            raise refusal(err) from err


def refusal(err: grpc.RpcError) -> Refusal:
    """Convert a gRPC error to a Refusal."""
    call = cast(Any, err)  # every RpcError that a stub raises is also a Call
    return Refusal(call.code().name, call.details())
