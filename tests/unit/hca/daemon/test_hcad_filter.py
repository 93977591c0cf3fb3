"""hcad's system calls that are permitted by argument: every value, against the system's names."""

import errno
import fcntl
import os
import socket
import termios
from collections.abc import Iterable

import pytest

from hca.daemon.serving import filter as calls_filter
from support.oracles import bpf
from vgpu_sim.system.call_numbers import NUMBERS

ALLOW, DENY = bpf.ALLOW, bpf.ERRNO | errno.EPERM
PR_SET_NAME, PR_GET_NAME, PR_SET_VMA = 15, 16, 0x53564D41  # linux/prctl.h
UFFDIO = {0xC018AA3F, 0xC020AA00, 0x8010AA01}  # API, REGISTER, UNREGISTER of linux/userfaultfd.h
UFFD_USER_MODE_ONLY = 1
# linux/in.h and in6.h, where Python has no name
IP_MULTICAST_ALL, IPV6_MULTICAST_ALL, SO_RCVBUFFORCE = 49, 29, 33
OPTIONS = {
    *(socket.SO_REUSEADDR, socket.SO_RCVBUF, SO_RCVBUFFORCE),
    *(socket.IP_ADD_MEMBERSHIP, IP_MULTICAST_ALL),
    *(socket.IPV6_JOIN_GROUP, IPV6_MULTICAST_ALL),
}
COMMANDS = {
    *(fcntl.F_DUPFD, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
    *(fcntl.F_DUPFD_CLOEXEC, fcntl.F_ADD_SEALS, fcntl.F_GET_SEALS),
}
PLACES = {"fabric": {}, "wire": {"wired": True}, "node": {"node": True}}


def around(values: Iterable[int]) -> set[int]:
    """Return the values, their neighbours, and all small values."""
    near = {one + by for one in values for by in (-1, 0, 1)}
    return {one for one in near if one >= 0} | set(range(128))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("call", "argument", "allowed"),
    [
        ("fcntl", 1, COMMANDS),
        ("prctl", 0, {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA}),
        ("ioctl", 1, {termios.FIONBIO, termios.FIOCLEX} | UFFDIO),
        ("userfaultfd", 0, {os.O_CLOEXEC | UFFD_USER_MODE_ONLY}),
        ("tgkill", 0, {os.getpid()}),
    ],
)
def test_a_value_is_allowed_if_it_is_named(place, call, argument, allowed):
    code = calls_filter.program(**PLACES[place])
    for value in around(allowed):
        arguments = [0, 0, 0]
        arguments[argument] = value
        expected = ALLOW if value in allowed else DENY
        assert bpf.decide(code, NUMBERS[call], arguments) == expected, value


@pytest.mark.parametrize("place", PLACES)
def test_sockets_are_local_on_a_node_and_of_datagrams_with_a_wire(place):
    code = calls_filter.program(**PLACES[place])
    flags = (0, os.O_CLOEXEC, os.O_NONBLOCK, os.O_CLOEXEC | os.O_NONBLOCK)
    for domain in range(46):
        for kind in range(11):
            for flag in flags:
                wanted = (domain, kind | flag, 0)
                datagrams = kind == socket.SOCK_DGRAM and flag == os.O_CLOEXEC
                internet = domain in (socket.AF_INET, socket.AF_INET6)
                allowed = {
                    "fabric": False,
                    "wire": internet and datagrams,
                    "node": domain == socket.AF_UNIX,
                }[place]
                expected = ALLOW if allowed else DENY
                assert bpf.decide(code, NUMBERS["socket"], wanted) == expected, wanted


@pytest.mark.parametrize("place", PLACES)
def test_options_of_sockets_with_a_wire_are_those_of_groups(place):
    code = calls_filter.program(**PLACES[place])
    for option in around(OPTIONS):
        allowed = place == "node" or (place == "wire" and option in OPTIONS)
        for level in (socket.SOL_SOCKET, socket.IPPROTO_IP, socket.IPPROTO_IPV6):
            decision = bpf.decide(code, NUMBERS["setsockopt"], (3, level, option))
            assert decision == (ALLOW if allowed else DENY), option


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("call", ["mmap", "mprotect"])
def test_no_memory_becomes_executable_whatever_the_other_bits(place, call):
    code = calls_filter.program(**PLACES[place])
    for protection in range(16):
        expected = DENY if protection & 4 else ALLOW  # PROT_EXEC
        assert bpf.decide(code, NUMBERS[call], (0, 4096, protection)) == expected
