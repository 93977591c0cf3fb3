"""The pod of a process, by the cgroup paths that kubelets create; names may be hostile."""

import os
import socket

import pytest

from vgpu_sim.system.peers import (
    is_pod_uid,
    peer_of,
    pod_of_cgroups,
    pod_of_process,
    sender_of,
)

UID = "8b7a1c2d-0e4f-4a6b-9c8d-7e6f5a4b3c2d"
OTHER = "11111111-2222-3333-4444-555555555555"
LOW = UID.replace("-", "_")
KIND = f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{LOW}.slice"
STATIC = "0123456789abcdef0123456789abcdef"

NAMED = {
    "v1, kind": f"12:memory:/{KIND}/cri-containerd-ab.scope\n3:cpu:/{KIND}/cri-containerd-ab.scope",
    "v2, systemd": f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/cri-containerd-a.scope",
    "v2, guaranteed": f"0::/kubepods.slice/kubepods-pod{LOW}.slice/cri-containerd-a.scope",
    "v2, cgroupfs": f"0::/kubepods/burstable/pod{UID}/aabbcc",
    "v2, seen from another namespace": f"0::/../../pod{UID}/aabbcc",
    "only some hierarchies": f"9:pids:/{KIND}/x\n8:misc:/",
    "a tenant's own directories below": f"0::/kubepods/pod{UID}/ctr/pod{OTHER}/x",
    "a colon in a name": f"1:name=systemd:/kubepods/pod{UID}/a:b",
}

NO_POD = {
    "empty": "",
    "host process": "0::/user.slice/user-1000.slice/session-3.scope",
    "two pods": f"5:cpu:/kubepods/pod{UID}/a\n4:memory:/kubepods/pod{OTHER}/a",
    "not quite": f"0::/kubepods/xpod{UID}/a",
    "too long": f"0::/kubepods/pod{UID}0/a",
    "upper case": f"0::/kubepods/pod{UID.upper()}/a",
    "dashes under systemd": f"0::/kubepods-pod{UID}.slice/a",
    "no path": "garbage\n::",
    "null": "0::/kubepods/pod\0/a",
}


@pytest.mark.parametrize("name", NAMED)
def test_the_pod_is_found(name):
    assert pod_of_cgroups(NAMED[name]) == UID


@pytest.mark.parametrize("name", NO_POD)
def test_no_pod_is_no_pod(name):
    assert pod_of_cgroups(NO_POD[name]) is None


def test_static_pods_have_plain_uids():
    assert pod_of_cgroups(f"0::/kubepods/burstable/pod{STATIC}/a") == STATIC
    assert is_pod_uid(STATIC)
    assert is_pod_uid(UID)
    assert not is_pod_uid(UID + "\n")


def test_it_is_read_from_proc(tmp_path):
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text(NAMED["v2, systemd"])
    assert pod_of_process(42, tmp_path) == UID
    assert pod_of_process(43, tmp_path) is None
    assert pod_of_process(0, tmp_path) is None
    assert pod_of_process(-1, tmp_path) is None


def test_a_passed_on_socket_keeps_its_first_owners_name_but_messages_tell():
    """Two real processes show that SO_PEERCRED names the connector, and SCM_CREDENTIALS the
    sender.
    """
    server, client = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with server, client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        child = os.fork()
        if child == 0:
            client.send(b"hello")
            os._exit(0)
        os.waitpid(child, 0)
        _, ancillary, _, _ = server.recvmsg(16, socket.CMSG_SPACE(12))
        sender = sender_of(ancillary)
        assert sender is not None
        assert sender.pid == child
        assert peer_of(server).pid == os.getpid()
    assert sender_of([]) is None
