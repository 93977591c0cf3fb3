"""Requests for contexts on a slice: changes during the authorisation take effect."""

import asyncio
import dataclasses
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from support.rigs import a30_slice
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.model import ClaimShare, MigInstance, Owner
from vgpu_sim.gpud.slices.server import SOCKET_NAME, SliceServer
from vgpu_sim.hal.compute.address_map import APERTURE_BASES
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import Header, MessageType
from vgpu_sim.system import foreign, seqpacket
from vgpu_sim.system.admin_socket.errors import NotFound
from vgpu_sim.system.peers import PodUid

INSTANCE = a30_slice.make()
CLAIM, OTHERS = (f"claim:{digit * 8}-3333-4333-8333-333333333333" for digit in "34")
POD = PodUid("11111111-1111-4111-8111-111111111111")
ASKING = Owner(POD, "team")
SHARING = Owner(POD, "team", CLAIM)
LAUNCHED = 0


def shared_instance(*shares: ClaimShare) -> MigInstance:
    return dataclasses.replace(INSTANCE, shares=shares)


def share(owner: str = CLAIM, admit: bool = True) -> ClaimShare:
    return ClaimShare(owner, "team/job", 1 << 30, admit=admit)


class Node:
    """Authorises each client as ``owner``; afterwards the slice is ``after`` and may have
    failed.
    """

    def __init__(
        self, owner: Owner, after: MigInstance | None, failed: tuple[int, str] | None = None
    ) -> None:
        self._owner, self._after, self._failed = owner, after, failed
        self._is_authorised = False
        self.launched: list[tuple[MigInstance, Owner]] = []

    def instance_of(self, uuid: str) -> MigInstance:
        assert uuid == INSTANCE.uuid
        if not self._is_authorised:
            return INSTANCE
        if self._after is None:
            raise NotFound("no such instance")
        return self._after

    def refusal(self, instance: MigInstance) -> tuple[int, str] | None:
        return self._failed if self._is_authorised else None

    async def authorize(self, *_: object) -> Owner:
        self._is_authorised = True
        return self._owner

    async def is_holder(self, *_: object) -> bool:
        return True

    async def launch(
        self, instance: MigInstance, hello: object, client: object, peer: object, owner: Owner
    ) -> None:
        self.launched.append((instance, owner))


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a short name, since sockets' paths are limited."""
    foreign.prepare_waking()
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as name:
        yield Path(name) / "slice"


def status_of(directory: Path, node: Node) -> int:
    """Request a context; return the CUresult of gpud's answer, 0 if its worker would answer."""

    async def scenario() -> int:
        never = cast(Any, None)
        server = SliceServer(
            *(INSTANCE.uuid, directory, node.instance_of, never),
            *(cast(Any, node), cast(Any, node), node.refusal),
        )
        server.open(0o600, 0o700)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(str(directory / SOCKET_NAME))
                client.setblocking(False)
                client.send(hello_message(MessageType.HELLO_CONTEXT, aperture_base=BASE))
                await asyncio.wait_for(seqpacket.wait_until_readable(client.fileno()), 60)
                reply = client.recv(16384)
                return Header.from_buffer_copy(reply).status if reply else LAUNCHED
        finally:
            await server.close(remove_directory=True)

    return asyncio.run(scenario())


BASE = APERTURE_BASES[0]
UNAVAILABLE = CudaError.DEVICE_UNAVAILABLE
CASES: dict[str, tuple[Owner, Callable[[], MigInstance | None], int]] = {
    "as it was": (ASKING, lambda: INSTANCE, LAUNCHED),
    "withdrawn": (ASKING, lambda: dataclasses.replace(INSTANCE, admit=False), UNAVAILABLE),
    "destroyed": (ASKING, lambda: None, UNAVAILABLE),
    "without compute": (ASKING, lambda: dataclasses.replace(INSTANCE, compute=False), UNAVAILABLE),
    "its share": (SHARING, lambda: shared_instance(share()), LAUNCHED),
    "beside another's share that is withdrawn": (
        *(SHARING, lambda: shared_instance(share(OTHERS, admit=False), share()), LAUNCHED),
    ),
    "its share withdrawn": (SHARING, lambda: shared_instance(share(admit=False)), UNAVAILABLE),
    "another's share alone": (SHARING, lambda: shared_instance(share(OTHERS)), UNAVAILABLE),
    "its share of what is withdrawn": (
        *(SHARING, lambda: dataclasses.replace(shared_instance(share()), admit=False), UNAVAILABLE),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_context_is_started_where_the_slice_still_admits_it(directory: Path, name: str) -> None:
    owner, changed, status = CASES[name]
    after = changed()
    node = Node(owner, after)
    assert status_of(directory, node) == status
    assert node.launched == ([(after, owner)] if status == LAUNCHED else [])


@pytest.mark.parametrize("status", [CudaError.NO_DEVICE, UNAVAILABLE])
def test_a_slice_that_fails_while_its_holder_is_authorised_starts_nothing(
    directory: Path, status: CudaError
) -> None:
    node = Node(ASKING, INSTANCE, (status, "it has failed"))
    assert status_of(directory, node) == status
    assert node.launched == []
