"""Reads a network namespace's links and routes, and attaches the classifier to links, by rtnetlink.

The rtnetlink client is pyroute2. ``tc`` could attach the classifier, but takes a program only
from a file of a BPF file system, which this process would have to mount.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer import segments
from device_plugin.second_layer.fou import list_fou_ports
from vgpu_sim.records import dataclass

_PRIORITY: Final = 4791  # identifies this classifier among others
_HANDLE: Final = 1
_NAME: Final = "tessera_segments"
_INGRESS: Final = 0xFFFFFFF2  # linux/pkt_sched.h: TC_H_CLSACT, TC_H_MIN_INGRESS
_ETH_P_ALL: Final = 0x0003
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_UNICAST: Final = 1  # linux/rtnetlink.h: RTN_UNICAST
_MAIN: Final = 254
_GROUPS: Final = 0x1 | 0x40 | 0x400  # RTMGRP_LINK, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_UP: Final = 0x1  # linux/if.h: IFF_UP
_ENCAPSULATED: Final = {
    "vxlan": ("IFLA_VXLAN_PORT",),
    "geneve": ("IFLA_GENEVE_PORT",),
    **{
        kind: tuple(f"IFLA_{prefix}_ENCAP_{end}" for end in ("SPORT", "DPORT"))
        for kind, prefix in (
            ("gre", "GRE"),
            ("gretap", "GRE"),
            ("ip6gre", "IP6GRE"),
            ("ip6gretap", "IP6GRE"),
            ("ipip", "IPIP"),
            ("sit", "SIT"),
            ("ip6tnl", "IP6TNL"),
        )
    },
}
"""The attributes with the UDP ports of each kind of device; the last seven for FOU and GUE."""
_GONE: Final = (errno.ENODEV, errno.ENOENT, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Link:
    """A network link of a namespace.

    ``kind`` is the link's type as ``ip -d link`` prints it, such as veth. ``ports`` are the UDP
    ports of a device that encapsulates packets.
    """

    index: int
    name: str
    kind: str
    mtu: int
    is_up: bool = True
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A route through a link, and maybe a gateway, to a block of addresses.

    The addresses are equal to ``destination`` in the first ``prefix`` bits.
    """

    destination: str
    prefix: int
    link: int
    has_gateway: bool


@dataclass(frozen=True, slots=True)
class State:
    """The links of a namespace, and the unicast routes of its main table."""

    links: tuple[Link, ...]
    routes: tuple[Route, ...]
    fou_ports: tuple[int, ...] = ()
    """The UDP ports at which the kernel decapsulates FOU and GUE."""


class Namespace:
    """A network namespace: this process's own, or one that has a name in ``ip netns``."""

    def __init__(self, netns: str | None = None) -> None:
        """Connect to the kernel. Raises SecondLayerError if the kernel does not answer."""
        self._is_own = netns is None
        try:
            self._kernel: Any = IPRoute(netns=netns) if netns else IPRoute()
        except (OSError, NetlinkError) as err:
            raise SecondLayerError(f"cannot open an rtnetlink socket: {err}") from err

    def close(self) -> None:
        """Close the connection to the kernel."""
        self._kernel.close()

    def state(self) -> State:
        """Return the current links and routes. Raises SecondLayerError."""
        with _convert_errors("links and routes"):
            links = tuple(_link(message) for message in self._kernel.get_links())
            routes = tuple(
                _route(message)
                for family in _FAMILIES
                for message in self._kernel.get_routes(family=family)
                if message["type"] == _UNICAST and _attribute(message, "RTA_TABLE") == _MAIN
            )
            fou_ports = list_fou_ports() if self._is_own else ()
        return State(links, routes, fou_ports)

    def attach_classifier(self, link: int) -> None:
        """Attach the classifier to a link's incoming packets, if it is not attached.

        Raises:
            SecondLayerError: the kernel refuses it, or the link has gone.
        """
        with _convert_errors(f"classifier of link {link}"):
            try:
                self._kernel.tc("add", "clsact", link)
            except NetlinkError as err:
                if err.code != errno.EEXIST:
                    raise
            with contextlib.closing(_Loaded()) as loaded:
                # A fixed handle: it replaces an earlier classifier of linkd's, and never one of
                # another program.
                self._kernel.tc(
                    "replace-filter",
                    "bpf",
                    link,
                    _HANDLE,
                    fd=loaded.descriptor,
                    name=_NAME,
                    parent=_INGRESS,
                    prio=_PRIORITY,
                    protocol=_ETH_P_ALL,
                    classid=1,
                    direct_action=True,
                )

    def detach_classifier(self, link: int) -> None:
        """Detach the classifier from a link, and remove the link's qdisc if it has no other filter.

        If the link no longer exists, nothing is done. Raises SecondLayerError.
        """
        with _convert_errors(f"classifier of link {link}"), _ignoring(*_GONE):
            self._kernel.tc(
                "del-filter",
                "bpf",
                link,
                _HANDLE,
                parent=_INGRESS,
                prio=_PRIORITY,
                protocol=_ETH_P_ALL,
            )
            remaining_filters = [
                packet_filter
                for parent in (_INGRESS, _INGRESS + 1)
                for packet_filter in self._kernel.get_filters(index=link, parent=parent)
            ]
            if not remaining_filters:
                self._kernel.tc("del", "clsact", link)

    def classified_links(self) -> frozenset[int]:
        """Return the indexes of the links that have the classifier. Raises SecondLayerError."""
        with _convert_errors("classifiers"):
            link_indexes = set()
            for queue in self._kernel.get_qdiscs():
                if _attribute(queue, "TCA_KIND") != "clsact":
                    continue
                link = int(queue["index"])
                with _ignoring(*_GONE):
                    for packet_filter in self._kernel.get_filters(index=link, parent=_INGRESS):
                        options = _attribute(packet_filter, "TCA_OPTIONS")
                        if options is not None and _attribute(options, "TCA_BPF_NAME") == _NAME:
                            link_indexes.add(link)
            return frozenset(link_indexes)

    def classifier_drops(self) -> Mapping[int, int]:
        """Return the number of packets that classifiers dropped on each link, by the link's index.

        Drops by other programs' classifiers, which are not expected there, are counted too.
        Raises SecondLayerError.
        """
        with _convert_errors("classifiers"):
            return {
                int(queue["index"]): int(stats["drop"])
                for queue in self._kernel.get_qdiscs()
                if _attribute(queue, "TCA_KIND") == "clsact"
                and (stats := _attribute(queue, "TCA_STATS")) is not None
            }


class _Loaded:
    """Holds the classifier's program until a filter refers to it."""

    def __init__(self) -> None:
        self.descriptor = segments.load()

    def close(self) -> None:
        os.close(self.descriptor)


def open_change_socket() -> socket.socket:
    """Return a socket that becomes readable whenever links or routes of this namespace change.

    Raises OSError.
    """
    listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    listener.setblocking(False)
    listener.bind((0, _GROUPS))
    return listener


@contextlib.contextmanager
def _convert_errors(subject: str) -> Iterator[None]:
    try:
        yield
    except (OSError, NetlinkError) as err:
        raise SecondLayerError(f"{subject}: {err}") from err


@contextlib.contextmanager
def _ignoring(*codes: int) -> Iterator[None]:
    try:
        yield
    except NetlinkError as err:
        if err.code not in codes:
            raise


def _attribute(message: Any, name: str) -> Any:
    return message.get_attr(name)


def _link(message: Any) -> Link:
    about = _attribute(message, "IFLA_LINKINFO")
    kind = _attribute(about, "IFLA_INFO_KIND") if about is not None else ""
    name, mtu = _attribute(message, "IFLA_IFNAME"), _attribute(message, "IFLA_MTU")
    is_up = bool(int(message["flags"]) & _UP)
    data = _attribute(about, "IFLA_INFO_DATA") if kind in _ENCAPSULATED else None
    values = [_attribute(data, key) for key in _ENCAPSULATED[kind]] if data is not None else []
    ports = tuple(sorted({int(value) for value in values if value}))
    return Link(int(message["index"]), str(name), str(kind or ""), int(mtu or 0), is_up, ports)


def _route(message: Any) -> Route:
    gateway = _attribute(message, "RTA_GATEWAY") is not None or _attribute(message, "RTA_VIA")
    return Route(
        str(_attribute(message, "RTA_DST") or ""),
        int(message["dst_len"]),
        int(_attribute(message, "RTA_OIF") or 0),
        bool(gateway),
    )
