"""The agent's reads from rtnetlink, and the changes that it makes; the kernel is a fake.

``tests/integration/rdma/test_second_layer.py`` checks the same with a kernel, as root.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer import kernel
from device_plugin.second_layer.kernel import Link, Namespace, Route

INGRESS, EGRESS = 0xFFFF_FFF2, 0xFFFF_FFF3


class Message(dict[str, Any]):
    """A message of rtnetlink: fields, and attributes by name."""

    def __init__(self, attributes: dict[str, Any] | None = None, **fields: Any) -> None:
        super().__init__(fields)
        self._attributes = attributes or {}

    def get_attr(self, name: str) -> Any:
        """Return an attribute, or None."""
        return self._attributes.get(name)


def queue(index: int, kind: str = "clsact", drops: int | None = 0) -> Message:
    attributes: dict[str, Any] = {"TCA_KIND": kind}
    if drops is not None:
        attributes["TCA_STATS"] = {"drop": drops}
    return Message(attributes, index=index)


def classifier(name: str | None) -> Message:
    """Return a BPF filter with its program's name; None: a filter without options."""
    return Message({"TCA_OPTIONS": Message({"TCA_BPF_NAME": name})} if name else {})


class Kernel:
    """A fake kernel that records changes; ``refused`` has error codes by call or by listed link."""

    def __init__(self) -> None:
        self.links: list[Message] = []
        self.routes: dict[int, list[Message]] = {}
        self.queues: list[Message] = []
        self.filters: dict[tuple[int, int], list[Message]] = {}
        self.refused: dict[object, int] = {}
        self.changes: list[tuple[object, ...]] = []

    def get_links(self) -> list[Message]:
        """Return the links."""
        self._refuse("links")
        return self.links

    def get_routes(self, family: int) -> list[Message]:
        """Return the routes of an address family."""
        return self.routes.get(family, [])

    def get_qdiscs(self) -> list[Message]:
        """Return the queues of all links."""
        self._refuse("queues")
        return self.queues

    def get_filters(self, index: int, parent: int) -> list[Message]:
        """Return the filters of a link's queue."""
        self._refuse(index)
        return self.filters.get((index, parent), [])

    def tc(self, what: str, kind: str, link: int, *handle: int, **more: object) -> None:
        """Record a change, unless it is refused."""
        self._refuse(what)
        self.changes.append((what, kind, link, *handle, *sorted(more.items())))

    def _refuse(self, what: object) -> None:
        if what in self.refused:
            raise NetlinkError(self.refused[what])


@pytest.fixture
def fake_kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    one = Kernel()
    monkeypatch.setattr(kernel, "IPRoute", lambda: one)
    return one


OWN = ("parent", INGRESS), ("prio", 4791), ("protocol", 3)


def test_links_and_unicast_routes_of_the_main_table_are_read(fake_kernel: Kernel) -> None:
    veth = Message({"IFLA_INFO_KIND": "veth"})
    vxlan = Message(
        {"IFLA_INFO_KIND": "vxlan", "IFLA_INFO_DATA": Message({"IFLA_VXLAN_PORT": 8472})}
    )
    ports = Message({"IFLA_IPIP_ENCAP_SPORT": 0, "IFLA_IPIP_ENCAP_DPORT": 7777})
    ipip = Message({"IFLA_INFO_KIND": "ipip", "IFLA_INFO_DATA": ports})
    fake_kernel.links = [
        Message({"IFLA_IFNAME": "lo"}, index=1, flags=0x49),
        Message({"IFLA_IFNAME": "v0", "IFLA_MTU": 9000, "IFLA_LINKINFO": veth}, index=7, flags=1),
        Message(
            {"IFLA_IFNAME": "d0", "IFLA_MTU": 1500, "IFLA_LINKINFO": Message()}, index=8, flags=1
        ),
        Message({"IFLA_IFNAME": "x0", "IFLA_LINKINFO": vxlan}, index=9, flags=1),
        Message({"IFLA_IFNAME": "tunl0", "IFLA_LINKINFO": ipip}, index=10, flags=0x80),
    ]

    def route(type_: int = 1, table: int = 254, **more: Any) -> Message:
        return Message({"RTA_TABLE": table, **more}, type=type_, dst_len=24)

    fake_kernel.routes = {
        2: [
            route(RTA_DST="10.0.0.0", RTA_OIF=7),
            route(table=255, RTA_DST="10.0.0.1"),
            route(type_=2, RTA_DST="10.0.0.2"),
            route(RTA_DST="10.1.0.0", RTA_OIF=8, RTA_GATEWAY="10.0.0.9"),
        ],
        10: [route(RTA_OIF=7, RTA_VIA={"addr": "fe80::1"}), route()],
        7: [route(RTA_DST="another family")],
    }
    found = Namespace().state()
    assert found.links == (
        Link(1, "lo", "", 0),
        Link(7, "v0", "veth", 9000),
        Link(8, "d0", "", 1500),
        Link(9, "x0", "vxlan", 0, ports=(8472,)),
        Link(10, "tunl0", "ipip", 0, is_up=False, ports=(7777,)),
    )
    assert found.routes == (
        Route("10.0.0.0", 24, 7, False),
        Route("10.1.0.0", 24, 8, True),
        Route("", 24, 7, True),
        Route("", 24, 0, False),
    )


def test_links_are_classified_that_have_the_filter_of_our_name(fake_kernel: Kernel) -> None:
    ours, others = classifier("tessera_segments"), classifier("cilium")
    fake_kernel.queues = [queue(1), queue(2), queue(3), queue(4), queue(5), queue(6, "fq_codel")]
    fake_kernel.filters = {
        (1, INGRESS): [others, ours],
        (2, INGRESS): [others, classifier(None)],
        (3, EGRESS): [ours],
        (5, INGRESS): [ours, ours],
        (6, INGRESS): [ours],
    }
    for code in (errno.ENODEV, errno.ENOENT, errno.EINVAL):
        # a link that disappears meanwhile does not affect the others
        fake_kernel.refused = {4: code}
        assert Namespace().classified_links() == {1, 5}
    fake_kernel.refused = {4: errno.EPERM}
    with pytest.raises(SecondLayerError, match="classifiers"):
        Namespace().classified_links()


def test_drops_are_those_of_the_queues_of_classifiers(fake_kernel: Kernel) -> None:
    fake_kernel.queues = [
        queue(1, drops=5),
        queue(2, "fq_codel", 9),
        queue(3, drops=None),
        queue(4),
    ]
    assert Namespace().classifier_drops() == {1: 5, 4: 0}


@pytest.mark.parametrize(
    ("code", "stands"), [(None, True), (errno.EEXIST, True), (errno.ENODEV, False)]
)
def test_a_classifier_is_added_to_existing_filters(
    fake_kernel: Kernel, monkeypatch: pytest.MonkeyPatch, code: int | None, stands: bool
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(kernel.segments, "load", lambda: os.dup(reading))
    if code is not None:
        fake_kernel.refused["add"] = code
    try:
        if not stands:
            with pytest.raises(SecondLayerError, match="link 7"):
                Namespace().attach_classifier(7)
            assert fake_kernel.changes == []
            return
        Namespace().attach_classifier(7)
        *before, change = fake_kernel.changes
        assert before == ([] if code else [("add", "clsact", 7)])
        arguments = dict(change[4:])  # type: ignore[arg-type]
        descriptor = arguments.pop("fd")
        assert change[:4] == ("replace-filter", "bpf", 7, 1)
        assert arguments == {
            **dict(OWN),
            "name": "tessera_segments",
            "classid": 1,
            "direct_action": True,
        }
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)  # closed: the filter keeps the program
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("parent", [INGRESS, EGRESS, None])
def test_the_queue_goes_with_the_last_classifier(fake_kernel: Kernel, parent: int | None) -> None:
    if parent is not None:
        fake_kernel.filters = {(7, parent): [classifier("cilium")]}
    fake_kernel.filters[(8, INGRESS)] = [classifier("another link's")]
    Namespace().detach_classifier(7)
    ours = ("del-filter", "bpf", 7, 1, *OWN)
    assert fake_kernel.changes == ([ours] if parent is not None else [ours, ("del", "clsact", 7)])


@pytest.mark.parametrize("what", ["del-filter", 7, "del"])
def test_a_link_that_has_gone_has_no_classifier(fake_kernel: Kernel, what: object) -> None:
    for code in (errno.ENODEV, errno.ENOENT, errno.EINVAL):
        fake_kernel.refused = {what: code}
        Namespace().detach_classifier(7)
    fake_kernel.refused = {what: errno.EPERM}
    with pytest.raises(SecondLayerError, match="link 7"):
        Namespace().detach_classifier(7)


READ: list[Callable[[Namespace], object]] = [Namespace.state, Namespace.classifier_drops]


@pytest.mark.parametrize(("read", "what"), [*zip(READ, ("links", "queues"), strict=True)])
def test_an_error_of_the_kernel_names_what_could_not_be_read(
    fake_kernel: Kernel, read: Callable[[Namespace], object], what: str
) -> None:
    fake_kernel.refused = {what: errno.EPERM}
    with pytest.raises(SecondLayerError):
        read(Namespace())
