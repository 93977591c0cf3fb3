"""The library in unusual environments: no gpud, invalid variables, other drivers."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpu_sim import config
from vgpu_sim.cli.clients.slices import query
from vgpu_sim.hal import messages

ASK = """
import sys, time
from cuda.bindings import driver as d
begin = time.monotonic()
print(int(d.cuInit(0)[0]))
print(int(d.cuDeviceGetCount()[0]), time.monotonic() - begin < 2)
"""
NAME = """
from cuda.bindings import driver as d
code = int(d.cuInit(0)[0])
print(code, d.cuDeviceGetCount()[1] if not code else 0, end=" ")
if not code: print(bytes(d.cuDeviceGetUuid(0)[1].bytes).hex())
"""


def python(text, environment, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def slices(environment) -> list[str]:
    """The slices in CUDA's order, by placement."""
    there = Path(environment["TESSERA_SLICES_DIR"])
    return sorted(os.listdir(there), key=lambda name: query(there / name).instance_start)


def hexadecimal(directory: str) -> str:
    return directory.removeprefix("MIG-").replace("-", "")


def test_no_directory_and_an_empty_one(environment, tmp_path):
    for directory in (tmp_path / "missing", tmp_path):
        done = python(ASK, environment, TESSERA_SLICES_DIR=str(directory))
        assert done.stdout == "100\n3 True\n", done.stderr
        assert done.stderr == (
            f"tessera: no slice in {directory}: start the program with `tessera run`, or ask for a"
            " slice in the pod's limits\n"
        )


def test_folders_that_are_no_slices_are_not_waited_for(environment):
    """A slice folder without a socket means a restarting gpud; /etc is not a slice folder."""
    done = python(ASK, environment, TESSERA_SLICES_DIR="/etc", TESSERA_WAIT_S="60")
    assert done.stdout == "100\n3 True\n", done.stderr
    assert done.stderr.startswith("tessera: no slice in /etc: start the program with")


def test_hidden_slices_are_not_reported_missing(environment):
    for visible in ("", "-1"):
        assert python(ASK, environment, CUDA_VISIBLE_DEVICES=visible).stderr == ""


@pytest.mark.parametrize(
    ("visible", "entry", "found"),
    [("7", "7", 100), (" nonsense ,0", "nonsense", 100), ("0,7,1", "7", 0), ("MIG-", "MIG-", 100)],
)
def test_an_entry_that_names_no_slice_is_logged(environment, slices, visible, entry, found):
    text = "from cuda.bindings import driver as d; print([int(d.cuInit(0)[0]) for _ in range(2)])"
    done = python(text, environment, CUDA_VISIBLE_DEVICES=visible)
    assert done.stdout == f"{[found] * 2}\n"
    assert done.stderr == (
        f'tessera: CUDA_VISIBLE_DEVICES: "{entry}" does not name one of the devices here'
        f" ({len(slices)}); as in CUDA, it and every entry after it are ignored\n"
    )


@contextlib.contextmanager
def imposter(directory: Path) -> Iterator[socket.socket]:
    """Listen on a slice's socket in place of gpud."""
    (directory / "MIG-0").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(directory / "MIG-0" / "s.sock"))
        server.listen()
        server.settimeout(60)
        yield server


def start(text: str, environment, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text],
        env={**environment, "TESSERA_SLICES_DIR": str(directory)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_dead_socket(environment, tmp_path):
    with imposter(tmp_path):
        pass
    where = str(tmp_path)
    at_once = python(ASK, environment, TESSERA_SLICES_DIR=where, TESSERA_WAIT_S="0")
    assert (at_once.stdout, at_once.stderr) == ("100\n3 True\n", "")
    later = python(NAME, environment, TESSERA_SLICES_DIR=where, TESSERA_WAIT_S="1")
    assert later.stdout == "100 0 "
    assert later.stderr == (
        f"tessera: gpud does not serve {where}/MIG-0/s.sock: waiting for its restart, up to 1 s\n"
        f"tessera: gpud has not served {where}/MIG-0/s.sock for 1 s (TESSERA_WAIT_S): the program"
        " goes on without it\n"
    )


def test_a_gpud_that_accepts_and_stays_silent(environment, tmp_path):
    """It hangs, or gets no CPU time: the kernel accepts connections for it."""
    with imposter(tmp_path):
        path = tmp_path / "MIG-0" / "s.sock"
        done = python(NAME, environment, TESSERA_SLICES_DIR=str(tmp_path), TESSERA_WAIT_S="6")
        assert done.stdout == "100 0 "
        assert done.stderr == (
            f"tessera: gpud does not answer on {path}: waiting for it, or for its restart, up to"
            " 6 s\n"
            f"tessera: gpud has not answered on {path} for 6 s (TESSERA_WAIT_S): it hangs, or gets"
            " too little CPU time; the program goes on without it\n"
        )


def test_programs_wait_for_a_gpud_that_hangs_until_it_is_restarted(environment, slices, tmp_path):
    """In cuInit and for a new context."""
    link = tmp_path / "MIG-0" / "s.sock"
    real = Path(environment["TESSERA_SLICES_DIR"]) / slices[0] / "s.sock"
    with imposter(tmp_path):
        process = start(LATER, {**environment, "TESSERA_WAIT_S": "60"}, tmp_path)
        waiting = f"tessera: gpud does not answer on {link}: waiting for it, or for its restart,"
        assert process.stderr.readline() == f"{waiting} up to 60 s\n"
        link.unlink()
        link.symlink_to(real)
    assert process.stdout.readline() == "0\n"
    assert process.communicate("\n", timeout=60)[0] == "0\n"


LATER = """
from cuda.bindings import driver as d
print(int(d.cuInit(0)[0]), flush=True)
input()
print(int(d.cuCtxCreate(None, 0, 0)[0]))
"""


def test_programs_wait_for_a_restarting_gpud(environment, slices, tmp_path):
    """In cuInit and for a new context, while the socket is missing or refuses connections."""
    link = tmp_path / slices[0] / "s.sock"
    link.parent.mkdir()
    real = Path(environment["TESSERA_SLICES_DIR"]) / slices[0] / "s.sock"
    process = start(LATER, {**environment, "TESSERA_WAIT_S": "60"}, tmp_path)
    waiting = f"tessera: gpud does not serve {link}: waiting for its restart, up to 60 s\n"
    assert process.stderr.readline() == waiting
    link.symlink_to(real)
    assert process.stdout.readline() == "0\n"
    link.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(tmp_path / ".dead"))
    link.symlink_to(tmp_path / ".dead")
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stderr.readline() == waiting
    link.unlink()
    link.symlink_to(real)
    assert process.communicate(timeout=60)[0] == "0\n"


def test_programs_do_not_wait_for_a_withdrawn_slice(environment, slices, tmp_path):
    where = tmp_path / "slices"
    where.mkdir()
    link = where / slices[0]
    link.symlink_to(Path(environment["TESSERA_SLICES_DIR"]) / slices[0])
    process = start(LATER, {**environment, "TESSERA_WAIT_S": "60"}, where)
    assert process.stdout.readline() == "0\n"
    link.unlink()
    done = process.communicate("\n", timeout=50)
    assert done == ("46\n", ""), "CUDA_ERROR_DEVICE_UNAVAILABLE at once"


def test_a_socket_that_hangs_up(environment, tmp_path):
    """Without waits for restarts, one hang-up may be a gpud that has just ended; two are not."""
    with imposter(tmp_path) as server:
        process = start(ASK, {**environment, "TESSERA_WAIT_S": "0"}, tmp_path)
        server.accept()[0].close()
        server.accept()[0].close()
        assert process.communicate(timeout=60)[0] == "100\n3 True\n"


def test_a_request_is_repeated_after_gpud_hangs_up(environment, slices, tmp_path):
    """In cuInit and for a new context, when gpud ends or has not received a report yet."""
    link = tmp_path / slices[0] / "s.sock"
    real = Path(environment["TESSERA_SLICES_DIR"]) / slices[0] / "s.sock"
    waiting = f"tessera: gpud does not serve {link}: waiting for its restart, up to 60 s\n"
    with imposter(tmp_path) as server:
        (tmp_path / "MIG-0").rename(tmp_path / slices[0])
        process = start(LATER, environment, tmp_path)
        for begins in ("cuInit", "cuCtxCreate"):
            for _ in range(3):
                server.accept()[0].close()
            assert process.stderr.readline() == waiting, begins
            link.rename(tmp_path / ".imposter")
            link.symlink_to(real)
            if begins == "cuInit":
                assert process.stdout.readline() == "0\n"
                link.unlink()
                (tmp_path / ".imposter").rename(link)
                process.stdin.write("\n")
                process.stdin.flush()
        assert process.communicate(timeout=60)[0] == "0\n"


NVML = "import ctypes; print(ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"


def test_nvml_repeats_a_request_after_gpud_hangs_up(environment, slices, tmp_path):
    link = tmp_path / slices[0] / "s.sock"
    with imposter(tmp_path) as server:
        (tmp_path / "MIG-0").rename(tmp_path / slices[0])
        process = start(NVML, environment, tmp_path)
        for _ in range(2):
            server.accept()[0].close()
        link.unlink()
        link.symlink_to(Path(environment["TESSERA_SLICES_DIR"]) / slices[0] / "s.sock")
        out, err = process.communicate(timeout=60)
    assert out == "0\n"
    assert err == f"tessera: gpud does not serve {link}: waiting for its restart, up to 60 s\n"


NO_AGENT = "the node's agent (DaemonSet tessera-node-<pool>)"


@pytest.mark.parametrize("in_pod", [False, True])
def test_a_gpud_that_keeps_hanging_up_is_an_error_that_names_the_agent(
    environment, slices, tmp_path, in_pod
):
    """After the wait, creating a context fails with DEVICE_UNAVAILABLE.

    In a pod, gpud hangs up while the node's agent has not reported which pod holds the slice.
    """
    link = tmp_path / slices[0] / "s.sock"
    real = Path(environment["TESSERA_SLICES_DIR"]) / slices[0] / "s.sock"
    link.parent.mkdir()
    link.symlink_to(real)
    token = "" if in_pod else environment["TESSERA_TOKEN"]
    process = start(LATER, {**environment, "TESSERA_WAIT_S": "1", "TESSERA_TOKEN": token}, tmp_path)
    assert process.stdout.readline() == "0\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(tmp_path / ".imposter"))
        server.listen()
        server.settimeout(0.1)
        link.unlink()
        link.symlink_to(tmp_path / ".imposter")
        process.stdin.write("\n")
        process.stdin.flush()
        while process.poll() is None:
            with contextlib.suppress(TimeoutError):
                server.accept()[0].close()
    out, err = process.communicate()
    assert out == "46\n"
    waits = f", or for {NO_AGENT} to report that this pod holds the slice" if in_pod else ""
    missing = (
        f"{NO_AGENT} does not run or is being replaced, and has not reported that this pod holds"
        " the slice; "
    )
    assert err.splitlines() == [
        f"tessera: gpud does not serve {link}: waiting for its restart{waits}, up to 1 s",
        f"tessera: gpud has not served {link} for 1 s (TESSERA_WAIT_S): {missing if in_pod else ''}"
        "the program goes on without it",
    ]


def test_a_folder_without_links_is_not_waited_for(environment, slices, tmp_path):
    """Such is a container's mount of a withdrawn slice; here it is an open descriptor."""
    folder = tmp_path / slices[0]
    folder.mkdir()
    descriptor = os.open(folder, os.O_PATH)
    folder.rmdir()
    try:
        where = tmp_path / "slices"
        where.mkdir()
        (where / slices[0]).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
        done = python(ASK, environment, TESSERA_SLICES_DIR=str(where), TESSERA_WAIT_S="60")
    finally:
        os.close(descriptor)
    assert (done.stdout, done.stderr) == ("100\n3 True\n", "")


NO_ROOM = """
import resource
from cuda.bindings import driver as d
print(int(d.cuInit(0)[0]))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
print(int(d.cuCtxCreate(None, 0, 0)[0]))
"""


def test_a_limit_of_the_address_space_is_named(environment):
    done = python(NO_ROOM, environment)
    assert done.stdout == "0\n205\n", done.stderr
    assert "8 TiB of address space" in done.stderr
    assert "ulimit -v" in done.stderr


FORK = """
import ctypes, os, threading
lib = ctypes.CDLL("libcuda.so.1")
thread = threading.Thread(target=lib.cuInit, args=(0,))
thread.start()
input()
child = os.fork()
if child == 0:
    print(lib.cuInit(0), flush=True)
    os._exit(0)
os.waitpid(child, 0)
thread.join()
"""


def test_a_fork_while_another_thread_initialises(environment, tmp_path):
    with imposter(tmp_path) as server:
        process = start(FORK, {**environment, "TESSERA_WAIT_S": "0"}, tmp_path)
        parent, _ = server.accept()  # it waits for a reply, and holds cuInit's locks
        process.stdin.write("\n")
        process.stdin.flush()
        with parent:
            for _ in range(2):
                server.accept()[0].close()
        server.close()
        assert process.communicate(timeout=60)[0] == "100\n"


@pytest.mark.parametrize("answer", [b"", b"x", b"\0" * 24, b"TSRA" + b"\xff" * 4000])
def test_garbage_for_an_answer(environment, tmp_path, answer):
    with imposter(tmp_path) as server:
        process = start(ASK, {**environment, "TESSERA_WAIT_S": "0"}, tmp_path)
        connection, _ = server.accept()
        server.close()  # a close without a reply is a hang-up, after which the client repeats the request
        with connection:
            connection.recv(4096)
            connection.send(answer)
            printed = process.communicate(timeout=60)[0].splitlines()
    assert printed[0] in ("100", "803")
    assert printed[1] == "3 True"


def test_a_stopped_gpud_is_no_device_after_the_time_for_which_programs_wait(environment, node):
    os.kill(node.pid, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        done = python(NAME, environment, CUDA_VISIBLE_DEVICES="0", TESSERA_WAIT_S="2")
        assert 2 <= time.monotonic() - begin < 15
    finally:
        os.kill(node.pid, signal.SIGCONT)
    assert done.stdout.startswith("100 ")


def test_a_stale_slice_hides_no_other(environment, slices, tmp_path):
    where = tmp_path / "slices"
    shutil.copytree(
        environment["TESSERA_SLICES_DIR"], where, symlinks=True, ignore=lambda *_: ["s.sock"]
    )
    for name in slices[1:]:
        shutil.rmtree(where / name)
        (where / name).symlink_to(f"{environment['TESSERA_SLICES_DIR']}/{name}")
    done = python(NAME, environment, TESSERA_SLICES_DIR=str(where))
    assert done.stdout == f"0 1 {hexadecimal(slices[1])}\n"


def test_long_paths(environment, slices, tmp_path):
    where = tmp_path / ("x" * 120) / ("y" * 60)
    where.parent.mkdir()
    where.symlink_to(environment["TESSERA_SLICES_DIR"])
    assert python(NAME, environment, TESSERA_SLICES_DIR=str(where)).stdout.startswith("0 1 ")


@pytest.mark.parametrize(
    ("given", "index"),
    [
        (None, 0),
        ("0", 0),
        ("2", 2),
        ("2,0", 2),
        (" 1 , 0", 1),
        ("3", None),
        ("-1", None),
        ("", None),
        ("nonsense", None),
        ("1,1", None),
        ("0,nonsense", 0),
        ("@1", 1),
        ("@2 prefix", 2),
        ("@0 bare", 0),
        ("MIG-", None),
    ],
)
def test_visible_devices(environment, slices, given, index):
    """The variable is interpreted as by CUDA; a process sees one MIG device."""
    more = {}
    if given is not None:
        if given.startswith("@"):
            name = slices[int(given[1])]
            given = {"": name, " prefix": name[:15], " bare": name.removeprefix("MIG-")}[given[2:]]
        more["CUDA_VISIBLE_DEVICES"] = given
    done = python(NAME, environment, **more)
    if index is None:
        assert done.stdout == "100 0 ", given
    else:
        assert done.stdout == f"0 1 {hexadecimal(slices[index])}\n", given


def test_an_ambiguous_uuid_prefix_matches_no_slice(environment, slices, tmp_path):
    for name, real in (("MIG-ab1", slices[0]), ("MIG-ab2", slices[1])):
        (tmp_path / name).symlink_to(Path(environment["TESSERA_SLICES_DIR"]) / real)
    where = {**environment, "TESSERA_SLICES_DIR": str(tmp_path)}
    for visible, expected in (("MIG-ab", None), ("MIG-ab2", 1), ("AB1", 0), ("MIG-ab3", None)):
        done = python(NAME, where, CUDA_VISIBLE_DEVICES=visible)
        wanted = "100 0 " if expected is None else f"0 1 {hexadecimal(slices[expected])}\n"
        assert done.stdout == wanted, visible


@pytest.mark.parametrize("field", ["magic", "type", "request", "payload_bytes", "status"])
def test_an_answer_to_something_else_is_no_answer(environment, tmp_path, field):
    """The reply is valid except for one field of its header."""
    with imposter(tmp_path) as server:
        process = start(ASK, {**environment, "TESSERA_WAIT_S": "0"}, tmp_path)
        connection, _ = server.accept()
        with connection:
            request = messages.Header.from_buffer_copy(connection.recv(4096))
            header = messages.Header(
                magic=request.magic,
                version=request.version,
                type=request.type + 1,
                request=request.request,
                payload_bytes=ctypes.sizeof(messages.DeviceInfo),
            )
            setattr(header, field, -1 if field == "status" else getattr(header, field) + 1)
            connection.send(bytes(header) + bytes(messages.DeviceInfo()))
            printed = process.communicate(timeout=60)[0].splitlines()
    assert printed[0] == "803"


def test_the_wrong_token_gets_no_context(environment):
    """Queries need no token; a context needs the token of the run."""
    text = """
from cuda.bindings import driver as d
print(int(d.cuInit(0)[0]), int(d.cuCtxCreate(None, 0, 0)[0]))
"""
    for token in ("00" * 32, "junk"):
        assert python(text, environment, TESSERA_TOKEN=token).stdout == "0 800\n"
    assert python(text, environment).stdout == "0 0\n"


def test_trace(environment, tmp_path):
    trace = tmp_path / "trace"
    text = """
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0); p = d.cuMemAlloc(12345)[1]; d.cuMemFree(12); d.cuMemFree(p)
d.cuModuleGetFunction(3, b"some name"); print(hex(int(p)))
"""
    done = python(text, environment, TESSERA_TRACE=str(trace))
    lines = trace.read_text().splitlines()
    assert all(re.fullmatch(r"\d+\.\d{9} \d+ cu\w+\(.*\) = \d+ \d+ ns", line) for line in lines)
    calls = [line.split(" ", 2)[2].rsplit(" ", 2)[0] for line in lines]
    wanted = [
        "cuInit(Flags=0) = 0",
        f"cuMemAlloc_v2(dptr=[{done.stdout.strip()}], bytesize=12345) = 0",
        "cuMemFree_v2(dptr=12) = 1",
    ]
    assert [call for call in calls if call in wanted] == wanted
    assert any('name="some name"' in call and call.endswith("= 400") for call in calls)
    assert any(call.startswith("cuGetProcAddress_v2") for call in calls)


def test_an_unwritable_trace_is_logged_once(environment):
    text = "from cuda.bindings import driver as d; print([int(d.cuInit(0)[0]) for _ in range(3)])"
    done = python(text, environment, TESSERA_TRACE="/dev/full")
    assert done.stdout == "[0, 0, 0]\n"
    assert done.stderr == (
        "tessera: TESSERA_TRACE: calls are missing from the trace: No space left on device\n"
    )


def test_strict_ends_the_program(environment):
    text = "from cuda.bindings import driver as d; d.cuInit(0); d.cuGraphicsUnregisterResource(0); print('alive')"
    plain = python(text, environment)
    assert plain.stdout == "alive\n"
    assert "cuGraphicsUnregisterResource is not supported" in plain.stderr
    assert python(text, environment, TESSERA_LOG="quiet").stderr == ""
    strict = python(text, environment, TESSERA_STRICT="1")
    assert strict.returncode == -signal.SIGABRT
    assert strict.stdout == ""
    assert "cuGraphicsUnregisterResource was called" in strict.stderr


LOAD = """
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0)
print(int(d.cuModuleLoadData({image!r})[0]))
"""
CUBIN = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HH", 2, 190) + bytes(100)
NARROW = b".version 7.0\n.target sm_80\n.address_size 32\n.visible .entry k() { ret; }\n\0"
MANY_REASONS = b".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n" + (
    12 * b"  pmevent 1;\n" + b"  ret;\n}\n.visible .entry other() { ret; }\n\0"
)
ASK_FOR_KERNELS = """
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0)
m = d.cuModuleLoadData({image!r})[1]; l = d.cuLibraryLoadData({image!r}, [], [], 0, [], [], 0)[1]
for name in (b"other", b"nothing", b"k", b"k"):
    print(*(int(made[0]) for made in (d.cuModuleGetFunction(m, name), d.cuLibraryGetKernel(l,
    name))))
print(d.cuModuleGetFunctionCount(m)[1], d.cuLibraryGetKernelCount(l)[1])
print(*(d.cuFuncGetName(f)[1] for f in d.cuModuleEnumerateFunctions(5, m)[1] if int(f)))
print(*(d.cuKernelGetName(k)[1] for k in d.cuLibraryEnumerateKernels(5, l)[1] if int(k)))
"""


WITHOUT_A_CONTEXT = """
from cuda.bindings import driver as d
d.cuInit(0)
library = d.cuLibraryLoadData({image!r}, [], [], 0, [], [], 0)[1]
kernel = d.cuLibraryGetKernel(library, b"k")[1]
print(d.cuKernelGetName(kernel)[1], d.cuLibraryGetKernelCount(library)[1])
print(int(d.cuLibraryGetKernel(library, b"nothing")[0]), int(d.cuLibraryGetModule(library)[0]))
print(d.cuDevicePrimaryCtxGetState(0)[2], d.cuCtxGetCurrent()[1])
d.cuCtxCreate(None, 0, 0)
print(int(d.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)[0]), int(d.cuCtxSynchronize()[0]))
"""


def test_a_librarys_kernels_are_found_without_a_context(environment):
    image = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n\0"
    found = python(WITHOUT_A_CONTEXT.format(image=image), environment).stdout.splitlines()
    assert found == ["b'k' 1", "500 201", "0 <CUcontext 0x0>", "0 0"]


CORE_DUMPS = """
from cuda.bindings import driver as d
d.cuInit(0)
of = d.CUcoredumpSettings
settings = (
    (of.CU_COREDUMP_TRIGGER_HOST, False), (of.CU_COREDUMP_LIGHTWEIGHT, True),
    (of.CU_COREDUMP_FILE, b"dump"), (of.CU_COREDUMP_ENABLE_ON_EXCEPTION, False),
)
for name, value in settings:
    set_to = d.cuCoredumpSetAttributeGlobal(name, value)[0]
    print(int(set_to), d.cuCoredumpGetAttributeGlobal(name)[1] == value)
print(int(d.cuCoredumpSetAttributeGlobal(of.CU_COREDUMP_ENABLE_ON_EXCEPTION, True)[0]))
d.cuCtxCreate(None, 0, 0)
d.cuCoredumpSetAttribute(of.CU_COREDUMP_FILE, b"mine")
for get in (d.cuCoredumpGetAttribute, d.cuCoredumpGetAttributeGlobal):
    print(get(of.CU_COREDUMP_FILE)[1], get(of.CU_COREDUMP_LIGHTWEIGHT)[1])
"""


def test_core_dumps_have_settings_and_cannot_be_enabled(environment):
    run = python(CORE_DUMPS, environment)
    own = ["b'mine' True", "b'dump' True"]
    assert run.stdout.splitlines() == [*["0 True"] * 4, "801", *own]
    assert "cuCoredumpSetAttribute that enables core dumps" in run.stderr


@pytest.mark.parametrize(("image", "code"), [(NARROW, 801), (b"no PTX\0", 200), (CUBIN, 209)])
def test_strict_ends_the_program_where_an_image_is_refused(environment, image, code):
    plain = python(LOAD.format(image=image), environment)
    assert plain.stdout == f"{code}\n"
    strict = python(LOAD.format(image=image), environment, TESSERA_STRICT="1")
    assert (strict.returncode, strict.stdout) == (-signal.SIGABRT, "")
    assert strict.stderr.endswith(
        "an image was refused and TESSERA_STRICT is set: ending the program\n"
    )
    assert strict.stderr.startswith(plain.stderr)


def test_an_unsupported_kernel_is_refused_when_it_is_looked_up(environment):
    done = python(ASK_FOR_KERNELS.format(image=MANY_REASONS), environment)
    names = ["b'other'", "b'other'"]
    assert done.stdout.splitlines() == ["0 0", "500 500", "801 801", "801 801", "1 1", *names]
    said = [line for line in done.stderr.splitlines() if "cannot be used yet" in line]
    assert said == 2 * ["tessera: kernel k cannot be used yet (CUDA error 801)"], "once a module"
    strict = python(ASK_FOR_KERNELS.format(image=MANY_REASONS), environment, TESSERA_STRICT="1")
    assert strict.returncode == -signal.SIGABRT
    assert strict.stdout == "0 0\n500 500\n"


def test_reasons_beyond_the_limit_of_stderr_are_counted(environment):
    ask = LOAD + "d.cuModuleGetFunction(d.cuModuleLoadData({image!r})[1], b'k')"
    said = python(ask.format(image=MANY_REASONS), environment).stderr.splitlines()
    buffered = """
import ctypes
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0); log = bytearray(1 << 16)
o = d.CUjit_option
d.cuModuleLoadDataEx({image!r}, 2, [o.CU_JIT_INFO_LOG_BUFFER,
                     o.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES], [log, len(log)])
print(log.split(b"\\0")[0].decode(), end="")
"""
    done = python(buffered.format(image=MANY_REASONS), environment)
    title, *every = [line for line in done.stdout.splitlines() if line]
    assert title == "kernel 'k' cannot be used yet:"
    assert len(every) == 24
    assert said[0] == "tessera: kernel k cannot be used yet (CUDA error 801)"
    assert said[1:9] == [f"tessera:   {line}" for line in every[:8]]
    assert said[9:] == [
        f"tessera:   and {len(every) - 8} more lines: `tessera ptx check` shows all, as"
        " the buffers of CU_JIT_..._LOG_BUFFER do"
    ]


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("TESSERA_LOG", "debug", "quiet, or unset"),
        ("TESSERA_STRICT", "yes", "0 or 1"),
        ("TESSERA_RELAXED", "2", "0 or 1"),
        ("TESSERA_WAIT_S", "-1", "a number of seconds from 0 to 3600"),
        ("TESSERA_WAIT_S", "3601", "a number of seconds from 0 to 3600"),
        ("TESSERA_WAIT_S", "5s", "a number of seconds from 0 to 3600"),
        ("TESSERA_TOKEN", "ab" * 31, "64 hexadecimal digits"),
        ("TESSERA_TOKEN", "xy" * 32, "64 hexadecimal digits"),
    ],
)
def test_an_invalid_variable_is_logged_once(environment, name, value, wanted):
    done = python(NAME, environment, **{name: value})
    shown = "(not shown)" if name == "TESSERA_TOKEN" else value
    assert done.stderr == f"tessera: {name}={shown} is ignored: it must be {wanted}\n"
    assert done.stdout.startswith("0 1 ")


@pytest.mark.parametrize(
    "more",
    [
        {"TESSERA_LOG": ""},
        {"TESSERA_STRICT": "0", "TESSERA_RELAXED": "1"},
        {"TESSERA_WAIT_S": "3600"},
        {"TESSERA_WAIT_S": "0"},
    ],
)
def test_a_valid_variable_is_not_logged(environment, more):
    assert python(NAME, environment, **more).stderr == ""


def test_a_program_on_the_cuda_runtime_gets_an_explanation(environment):
    text = """
from cuda.bindings import runtime
for _ in range(2): print(int(runtime.cudaGetDeviceCount()[0]) != 0)
"""
    done = python(text, environment)
    assert done.stdout == "True\nTrue\n"
    assert done.stderr == (
        "tessera: this program uses NVIDIA's CUDA runtime (cudart), which needs NVIDIA's own driver"
        " and cannot run here: link it dynamically, with `nvcc -cudart shared` or `tessera cc`\n"
    )


@pytest.mark.parametrize("major", ["12", "13"])
def test_a_library_of_nvidias_that_is_found_first_is_named_with_the_remedy(
    environment, tmp_path, major
):
    library = tmp_path / f"libcublas.so.{major}"
    command = ["cc", "-shared", "-x", "c", "/dev/null", "-o", str(library)]
    subprocess.run(command, check=True)
    text = f"""
import ctypes
theirs, lib = ctypes.CDLL({str(library)!r}), ctypes.CDLL("libcuda.so.1")
for _ in range(2): print(lib.cuGetExportTable(ctypes.byref(ctypes.c_void_p()), bytes(16)))
"""
    done = python(text, environment)
    assert done.stdout == "500\n500\n"
    assert re.fullmatch(
        rf"tessera: {re.escape(str(library))} is NVIDIA's, which needs NVIDIA's own driver and"
        r" cannot run here; it was found before Tessera's: start the program with"
        rf" `tessera run --preload {major}`; in a pod set"
        rf" LD_PRELOAD=\S*/math/libtessera-cuda{major}\.so\n",
        done.stderr,
    )


def test_a_library_of_nvidias_that_is_loaded_by_its_path_has_another_remedy(environment, tmp_path):
    library = tmp_path / "libcublas.so.13"
    command = ["cc", "-shared", "-x", "c", "/dev/null", "-o", str(library)]
    subprocess.run(command, check=True)
    text = f"""
import ctypes
preloaded = ctypes.CDLL({str(config.LIBRARIES_DIR / "math" / "libtessera-cuda13.so")!r})
theirs, lib = ctypes.CDLL({str(library)!r}), ctypes.CDLL("libcuda.so.1")
print(lib.cuGetExportTable(ctypes.byref(ctypes.c_void_p()), bytes(16)))
"""
    done = python(text, environment)
    assert done.stderr.endswith("the program loads it by its path: uninstall its package\n")
    assert done.stderr.startswith(f"tessera: {library} is NVIDIA's")


def test_nvrtc_which_runs_here_is_not_remarked_on(environment):
    text = """
import ctypes
lib = ctypes.CDLL("libcuda.so.1")
table = ctypes.c_void_p()
print(lib.cuGetExportTable(ctypes.byref(table), bytes.fromhex("da9151d33ae6cc41a5c04f26d533e328")))
"""
    done = python(text, environment)
    assert (done.stdout, done.stderr) == ("500\n", "")


def test_relaxed_lets_the_host_look(environment):
    text = """
import ctypes
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0); p = int(d.cuMemAlloc(3 << 20)[1])
d.cuMemsetD8(p, 65, 100); d.cuCtxSynchronize(); print(ctypes.string_at(p, 3))
"""
    relaxed = python(text, environment, TESSERA_RELAXED="1")
    assert relaxed.stdout == "b'AAA'\n", relaxed.stderr
    assert python(text, environment).returncode == -signal.SIGSEGV


def test_another_driver_in_the_process_is_named(environment, libraries, tmp_path):
    other = tmp_path / "libcuda.so.1"
    source = tmp_path / "other.c"
    source.write_text("int cuThatIsNotOurs(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(other)], check=True)
    text = f"""
import ctypes
ctypes.CDLL({str(other)!r})
print(ctypes.CDLL({str(libraries / "libcuda.so.1")!r}).cuInit(0))
"""
    done = python(text, environment)
    assert done.stdout == "0\n"
    assert f"another CUDA driver library is loaded in this process: {other}" in done.stderr


def test_a_taken_aperture_moves_it(environment):
    """Another mapping is at the preferred base, so client and worker use the next one."""
    text = """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
assert libc.mmap(0x2012_3456_7000, 4096, 0, 0x22 | 0x100000, -1, 0) == 0x2012_3456_7000
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxCreate(None, 0, 0); p = int(d.cuMemAlloc(3 << 20)[1])
print(hex(p >> 43 << 43), int(d.cuMemsetD8(p, 65, 100)[0]), int(d.cuCtxSynchronize()[0]))
"""
    assert python(text, environment).stdout == "0x300000000000 0 0\n"
