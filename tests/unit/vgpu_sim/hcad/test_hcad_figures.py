"""Figures of hcad that others depend on: limits of what is outside, modes, the kernel's numbers."""

import importlib
from typing import Any

import pytest

FIGURES: dict[str, dict[str, Any]] = {
    # What comes from outside is bounded by these.
    "administration": {"MAX_TEXT": 512, "MAX_ADDRESSES": 2},
    "broker": {"MAX_REQUEST_BYTES": 256, "MAX_REPLY_BYTES": 4096},
    "cm_channel": {"MOST_WAITING": 1024},
    "cm_manager": {"_SPARE_DEADLINES": 64},
    "cm_wire": {"MADS_AT_ONCE": 16, "TRANSACTIONS": 4096, "_LOG_LINES_PER_MINUTE": 30},
    "denials": {"LOG_LINES_PER_MINUTE": 30, "MAX_KINDS": 1024},
    "functions": {"OPEN_WAIT_SECONDS": 2, "MAX_FUNCTIONS": 512, "MAX_ROUTES_BYTES": 1 << 20},
    "netd": {"_SOCKET_MODE": 0o660, "_REQUEST_SECONDS": 2, "_BACKLOG": 64},
    "node": {"_AGENT_UID": 0, "_ADMIN_MODE": 0o666, "_DIRECT_MODE": 0o666},
    "pod_wires": {"ANSWER_SECONDS": 2, "_LOG_LINES_PER_MINUTE": 30},
    "pods": {"MAX_CONNECTIONS_OF_FUNCTION": 64, "_SOCKET_MODE": 0o666},
    "policy_admin": {"MAX_LINE_BYTES": 128 << 20},  # a text of tables, each byte of it escaped
    "programs": {
        "OPEN_WAIT_SECONDS": 2,
        "REPLY_TIMEOUT_SECONDS": 5,
        "LOG_LINES_PER_MINUTE": 30,
    },
    "providers": {"ANSWER_SECONDS": 5, "LINK_SECONDS": 1, "_TRIES": 20},
    "resizing": {"ROUNDS": 2, "MOST_LOOKS": 1000, "MOST_SECONDS": 0.5},
    "server": {
        "MAX_CONNECTIONS": 8192,
        "MAX_SILENT": 64,
        "_BACKLOG": 1024,
        "HELLO_TIMEOUT_SECONDS": 5,
        "GATHER_SECONDS": 5,
    },
    "sources": {"MAX_SOURCES": 1024},
    "shares": {
        "RING_BYTES": 1 << 30,
        "OBJECT_BYTES": 256 << 20,
        "CLIENT_DESCRIPTORS": 10,
        "CLIENT_BYTES": 32 << 10,
        "_RESERVED": 256,
        "_OWN_MAPPINGS": 4096,
        "_UNLIMITED": 1 << 60,
    },
    "walls": {"OWN_MEMORY_BYTES": 1 << 30, "MAX_DESCRIPTORS": 1 << 16, "_STACK_BYTES": 1 << 20},
    # Of a successor and its predecessor, which may be of two versions; SCM_MAX_FD is 253.
    "handover": {"VERSION": 3, "SECONDS": 10, "_BATCH": 200, "_MAX_WORD": 256},
    # linux/sched.h, linux/sockios.h, ioctl_ns(2).
    "namespaces": {"_CLONE_NEWNET": 0x40000000, "_SIOCGSKNS": 0x894C, "_NS_GET_USERNS": 0xB701},
    # InfiniBand: the default partition, as a full member; queue pairs 0 and 1 are management's.
    "client": {"DEFAULT_PKEY": 0xFFFF},
    "numbers": {"_FIRST_QPN": 2},
    "qos": {"CNP_DSCP": 48},  # class selector 6: network control
}


@pytest.mark.parametrize("module", FIGURES)
def test_figures_are_those_that_were_written_down(module: str) -> None:
    found = importlib.import_module(f"vgpu_sim.hcad.{module}")
    assert {name: getattr(found, name) for name in FIGURES[module]} == FIGURES[module]
