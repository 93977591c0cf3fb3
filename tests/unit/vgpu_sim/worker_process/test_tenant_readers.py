"""Each function that reads a tenant's bytes has a row with the memory that it takes at most.

Readers of files that tenants pass to a worker are measured at their limit in
``test_worker_reader_memory.py``: three times 64 MiB. Here are those of messages, which are small,
and those of code, which take more than three times their input.
"""

import ast
import contextlib
import json
import re
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_operator.api import documents
from hca.contract import hca
from hca.daemon.cm import mad_codec, private_data
from hca.daemon.netd import broker
from hca.daemon.programs import requests
from support.kernels.fat_binaries import ptx_of
from vgpu_sim.compiler import capability_of, compile_ptx, linking
from vgpu_sim.compiler.lazy import open_file
from vgpu_sim.compiler.ptx import parser
from vgpu_sim.compiler.ptx.kernel_index import index_kernels
from vgpu_sim.gpud.contexts.worker_channel import MAX_MESSAGE_BYTES
from vgpu_sim.gpud.slices import hello, management
from vgpu_sim.hal import direct, messages
from vgpu_sim.hal.compute import spawn
from vgpu_sim.isa import container

ROOT = Path(__file__).parents[4]
PROCESSES = (
    "vgpu_sim/compiler",
    "vgpu_sim/exec",
    "vgpu_sim/gpud",
    "vgpu_sim/hal",
    "vgpu_sim/isa",
    "vgpu_sim/system",
    "vgpu_sim/worker",
    "device_plugin",
    "hca",
    "operator",
    "rdma",
)
"""The packages of processes to which tenants pass bytes."""
FILES = "tests/unit/vgpu_sim/worker_kernels/test_worker_reader_memory.py"

CAPABILITY = (9, 0)
DENSE_BYTES = 20_000
MESSAGE_PEAK_BYTES = 1 << 20


def kernel(statement: str) -> str:
    return ptx_of("90", f".visible .entry k() {{ {statement * (DENSE_BYTES // len(statement))} }}")


def many(declaration: str) -> bytes:
    number = DENSE_BYTES // len(declaration)
    body = "".join(declaration.replace("#", str(index)) for index in range(number))
    return ptx_of("90", body + ".visible .entry y() {}.visible .entry z() {}").encode()


RETURNS = kernel("ret;")
VARIABLES = many(".global .u8 a#;")
KERNELS = many(".entry a#(){}") + b" " * (32 << 10)
CONTAINER = container.encode(compile_ptx(RETURNS, capability=CAPABILITY))
OF_VARIABLES = container.encode(compile_ptx(VARIABLES, capability=CAPABILITY))

# The input, and how many bytes a reader takes at most for a byte of it.
CODE: dict[str, tuple[Callable[[bytes], object], bytes, int]] = {
    "vgpu_sim/compiler/pipeline.py compile_ptx": (
        lambda text: compile_ptx(text, capability=CAPABILITY),
        RETURNS.encode(),
        300,
    ),
    "vgpu_sim/compiler/pipeline.py capability_of": (capability_of, RETURNS.encode(), 300),
    "vgpu_sim/compiler/linking.py link": (
        lambda text: linking.link([linking.Input("a", text.decode())], CAPABILITY),
        RETURNS.encode(),
        300,
    ),
    "vgpu_sim/compiler/lazy.py open_file": (
        lambda text: open_file(text, CAPABILITY),
        VARIABLES + b" " * (32 << 10),
        60,
    ),
    "vgpu_sim/compiler/ptx/kernel_index.py index_kernels": (index_kernels, KERNELS, 60),
    "vgpu_sim/compiler/ptx/parser.py parse": (parser.parse, RETURNS.encode(), 300),
    "vgpu_sim/compiler/ptx/parser.py decode": (parser.decode, RETURNS.encode(), 3),
    "vgpu_sim/isa/container.py decode": (container.decode, CONTAINER, 25),
    "vgpu_sim/isa/container.py decode_variables": (container.decode_variables, OF_VARIABLES, 25),
    "vgpu_sim/isa/container.py decode_source": (container.decode_source, CONTAINER, 3),
    "operator/gpu_operator/api/documents.py read": (
        documents.read,
        b"[" + b"{}," * (DENSE_BYTES // 3) + b"0]",
        30,
    ),
    "operator/gpu_operator/api/documents.py read_in_steps": (
        documents.read_in_steps,
        b"[" + b"{}," * (DENSE_BYTES // 3) + b"0]",
        30,
    ),
}


def make_nested(size: int) -> bytes:
    """Return a message in JSON whose values take much more memory than their text."""
    return json.dumps({"type": "a", "x": [{}] * ((size - 64) // 4)}).encode()


# The largest message of each kind.
MESSAGES: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "vgpu_sim/gpud/slices/hello.py read": (hello.parse, b"\0" * messages.MAX_MESSAGE_BYTES),
    "vgpu_sim/gpud/slices/hello.py parse": (hello.parse, b"\0" * messages.MAX_MESSAGE_BYTES),
    "vgpu_sim/gpud/slices/management.py is_request": (
        management.is_request,
        b"\0" * messages.MAX_MESSAGE_BYTES,
    ),
    "vgpu_sim/gpud/slices/management.py parse": (
        management.parse,
        b"\0" * messages.MAX_MESSAGE_BYTES,
    ),
    "vgpu_sim/hal/compute/spawn.py decode": (spawn.decode, make_nested(MAX_MESSAGE_BYTES)),
    "vgpu_sim/hal/direct.py ExportRequest.decode": (
        direct.ExportRequest.decode,
        make_nested(direct.MAX_MESSAGE_BYTES),
    ),
    "vgpu_sim/hal/direct.py decode_answer": (
        direct.decode_answer,
        make_nested(direct.MAX_MESSAGE_BYTES),
    ),
    "hca/daemon/cm/mad_codec.py decode": (mad_codec.decode, b"\0" * 256),
    "hca/daemon/cm/private_data.py unpack": (private_data.unpack, b"\0" * 256),
    "hca/daemon/netd/broker.py _Request.read": (
        broker._Request.read,
        make_nested(broker.MAX_REQUEST_BYTES),
    ),
    "hca/daemon/programs/requests.py parse": (
        lambda data: requests.parse(data, {0: hca.HcaMrCreate}),
        b"\0" * requests.MAX_REQUEST_BYTES,
    ),
    "hca/daemon/programs/requests.py read": (requests.read, b"\0" * requests.MAX_REQUEST_BYTES),
    "hca/daemon/programs/requests.py type_of": (
        requests.type_of,
        b"\0" * requests.MAX_REQUEST_BYTES,
    ),
}


# Functions whose bytes have a small fixed size, by what they are.
KEYS = """
    addresses and interfaces
    hca/binding/addresses.py is_group
    hca/binding/addresses.py is_ipv4
    hca/binding/addresses.py address_of_pod
    hca/binding/engine.py Engine.add_pair
    hca/binding/engine_counting.py Counting.work_of
    hca/daemon/cm/bindings.py Bindings.check_unconnected
    hca/daemon/cm/bindings.py Bindings.has_queue_pair
    hca/daemon/cm/bindings.py Bindings.is_peer_connected
    hca/daemon/cm/manager.py Manager.abandon
    hca/daemon/cm/manager.py Manager.add_client
    hca/daemon/cm/manager.py Manager.function_at
    hca/daemon/cm/manager.py Manager.has_path
    hca/daemon/cm/manager.py Manager.receive
    hca/daemon/cm/manager.py Manager.request
    hca/daemon/cm/private_data.py address_text
    hca/daemon/cm/private_data.py is_loopback
    hca/daemon/cm/private_data.py is_mapped
    hca/daemon/cm/private_data.py is_multicast
    hca/daemon/cm/server.py CmServer.is_near
    hca/daemon/cm/server.py CmServer.new_ids
    hca/daemon/cm/wire.py CmWire.reaches
    hca/daemon/cm/wire.py CmWire.remove
    hca/daemon/cm/wire.py CmWire.send
    hca/daemon/policy/guard.py Guard.as_group_member
    hca/daemon/policy/parties.py Parties.address_of_gid
    hca/daemon/wires/groups.py WireGroups.hold
    hca/daemon/wires/groups.py WireGroups.join
    random keys, digests and words
    hca/daemon/objects/providers.py Providers.import_memory
    vgpu_sim/system/peers.py sender_of
    the beginning of a message
    hca/daemon/programs/device_memory.py is_device_memory_request
    vgpu_sim/isa/sections.py is_container
"""
# What Tessera's own processes write, or the worker itself from code that has a row.
OWN = """
    gpud, hcad, the operator and administrators
    hca/daemon/common/handover_state.py to_base64
    rdma/codec.py decode
    vgpu_sim/gpud/owner.py end_what_is_left
    vgpu_sim/system/filters.py apply
    vgpu_sim/system/json_lines.py decode_object
    objects and modules that a worker has compiled
    vgpu_sim/exec/jit/objects/compiler.py Compiler.use_emitter
    vgpu_sim/exec/jit/objects/compiler.py key_of
    vgpu_sim/exec/jit/objects/elf.py read
    vgpu_sim/exec/jit/objects/line_table.py rows
    vgpu_sim/exec/jit/objects/native_code.py NativeCode.from_bytes
    vgpu_sim/exec/jit/objects/object_check.py check
    vgpu_sim/exec/jit/objects/object_check.py is_of_this_machine
    vgpu_sim/isa/sections.py seal
    vgpu_sim/worker/modules/module_summary.py ModuleSummary.from_json
    vgpu_sim/worker/observing/arguments.py key_of
"""
# What calls readers that have a row, and takes no more than they and their results.
CALLERS = """
    parts of a container
    vgpu_sim/isa/encoding.py decode
    vgpu_sim/isa/sections.py unpack
    vgpu_sim/isa/wire.py decode_text
    responses of the API server
    operator/gpu_operator/kube/responses.py parse
    operator/gpu_operator/kube/responses.py parse_lines
    images
    vgpu_sim/hal/compute/ports.py Backend.load
    vgpu_sim/hal/compute/ports.py Emitter.request_code
    vgpu_sim/hal/compute/ports.py NativeBackend.emit
    vgpu_sim/worker/backends/interp.py InterpBackend.load
    vgpu_sim/worker/backends/jit.py JitBackend.emit
    vgpu_sim/worker/backends/jit.py JitBackend.load
    vgpu_sim/worker/compiling/compile_helper.py CompileHelper.request_code
    vgpu_sim/worker/memory.py create_constant
    vgpu_sim/worker/modules/container_cache.py ContainerCache.load
    vgpu_sim/worker/modules/container_cache.py ContainerCache.store
    vgpu_sim/worker/modules/images.py Images.compile
    vgpu_sim/worker/modules/images.py Images.may_be_lazy
    vgpu_sim/worker/modules/images.py Images.open_lazily
    vgpu_sim/worker/modules/images.py Images.read
    vgpu_sim/worker/modules/images.py Images.read_quickly
    vgpu_sim/worker/programs.py Programs.compile
    vgpu_sim/worker/programs.py Programs.load
    vgpu_sim/worker/programs.py Programs.load_quickly
"""


def list_rows(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if ".py " in line}


def list_measured() -> set[str]:
    """Return the readers of files that are measured at their limit."""
    text = (ROOT / FILES).read_text(encoding="utf-8")
    names = re.findall(r'^    "([a-z_]+)\.((?:[A-Z]\w+\.)?\w+)[ "]', text, re.MULTILINE)
    return {f"vgpu_sim/worker/modules/{module}.py {name}" for module, name in names}


def list_readers() -> set[str]:
    """Return the functions of these processes whose first parameter, beside a name, is bytes."""
    return {
        f"{path.relative_to(ROOT)} {name}"
        for package in PROCESSES
        for path in (ROOT / package).rglob("*.py")
        if "_pb2" not in path.name
        for name in functions_of(ast.parse(path.read_text(encoding="utf-8")), "")
    }


def functions_of(node: ast.AST, inside: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef():
                yield from functions_of(child, f"{inside}{child.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not child.name.startswith("_"):
                if takes_bytes(child.args):
                    yield inside + child.name


def takes_bytes(arguments: ast.arguments) -> bool:
    parameters = (*arguments.posonlyargs, *arguments.args)
    first = next((p.annotation for p in parameters if p.arg not in ("self", "cls", "name")), None)
    return first is not None and bool(
        {"bytes", "bytearray", "memoryview"} & set(re.findall(r"\w+", ast.unparse(first)))
    )


def measure_peak(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize("name", CODE)
def test_a_reader_of_code_takes_at_most_a_multiple_of_its_input(name: str) -> None:
    read, data, factor = CODE[name]
    read(data)  # which reads tables once
    assert measure_peak(lambda: read(data)) <= factor * len(data)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_reader_of_messages_takes_little(name: str) -> None:
    read, data = MESSAGES[name]
    assert len(data) <= MAX_MESSAGE_BYTES

    def refuse_or_read() -> None:
        with contextlib.suppress(Exception):
            read(data)

    assert measure_peak(refuse_or_read) <= MESSAGE_PEAK_BYTES


def test_each_reader_of_the_processes_has_a_row() -> None:
    rows = list_measured() | CODE.keys() | MESSAGES.keys()
    rows |= list_rows(KEYS) | list_rows(OWN) | list_rows(CALLERS)
    readers = list_readers()
    assert readers - rows == set()
    assert rows - readers == {"vgpu_sim/compiler/linking.py link"}  # of texts in a list
