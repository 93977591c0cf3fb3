"""The C headers are generated from the structures of Python: a compiler checks every offset."""

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from hca.contract import hca
from vgpu_sim.hal import header, messages
from vgpu_sim.hal.compute import abi, address_map, spawn
from vgpu_sim.native import generate


@pytest.mark.parametrize("name", generate.headers())
def test_a_compiler_agrees_with_every_offset(tmp_path: Path, name: str) -> None:
    """Each header compiles alone, and when it is included twice."""
    header.write_files(tmp_path / "include", generate.headers())
    source = tmp_path / "abi.c"
    source.write_text(f'#include "{name}"\n' * 2 + "int main(void) { return 0; }\n")
    command = ["cc", "-std=c11", "-Werror", f"-I{tmp_path / 'include'}", "-fsyntax-only"]
    subprocess.run([*command, str(source)], check=True)


def test_every_structure_is_in_the_header_of_its_contract() -> None:
    files = generate.headers()
    texts = "".join(files.values())
    for contract in (abi, messages, hca):
        for structure in contract.STRUCTURES:
            name = f"}} tessera_{header._snake(structure.__name__)};"
            assert texts.count(name) == 1
            assert name in files[f"tessera/{contract.__name__.rpartition('.')[2]}.h"]


def test_no_number_is_defined_twice() -> None:
    defined = re.findall(r"^#define (\w+) ", "".join(generate.headers().values()), re.MULTILINE)
    assert len(defined) == len(set(defined)) > 130


def test_a_wrong_offset_does_not_compile(tmp_path: Path) -> None:
    header.write_files(tmp_path, header.render())
    contract = tmp_path / "tessera/abi.h"
    text = contract.read_text()
    contract.write_text(text.replace("uint32_t bell;", "uint64_t bell;"))
    assert contract.read_text() != text
    source = tmp_path / "abi.c"
    source.write_text('#include "tessera_abi.h"\n')
    command = ["cc", "-std=c11", f"-I{tmp_path}", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "tessera_client_area.waiting" in done.stderr


def test_slots_are_what_the_rings_say() -> None:
    assert ctypes.sizeof(abi.Slot) == abi.SLOT_BYTES
    inline = abi.INLINE_PARAMETER_BYTES
    rest = -(-(abi.MAX_PARAMETER_BYTES - inline) // abi.SLOT_BYTES)
    assert rest + 1 <= abi.SLOTS_PER_STREAM
    for structure in messages.STRUCTURES:
        assert ctypes.sizeof(structure) <= messages.MAX_MESSAGE_BYTES


def test_ranges_of_a_gpu_window_do_not_overlap() -> None:
    context_bytes = address_map.MODULE_BYTES_PER_CONTEXT * address_map.MAX_CONTEXTS
    ranges = [
        (address_map.MODULE_OFFSET, context_bytes),
        (address_map.DEVICE_OFFSET, address_map.DEVICE_BYTES),
        (address_map.HOST_OFFSET, address_map.HOST_BYTES),
        (address_map.SHARED_OFFSET, address_map.SHARED_BYTES),
        (address_map.LOCAL_OFFSET, address_map.LOCAL_BYTES),
    ]
    end = address_map.CLAMP_BOUND_BYTES
    for offset, size in ranges:
        assert offset >= end
        end = offset + size
    assert end <= address_map.GPU_WINDOW_BYTES - address_map.CLAMP_BOUND_BYTES
    assert min(address_map.GUARD_BEFORE_BYTES, address_map.GUARD_AFTER_BYTES) >= (
        address_map.CLAMP_BOUND_BYTES
    )


def config() -> spawn.WorkerConfig:
    return spawn.WorkerConfig(
        request=7,
        instance_uuid="MIG-1",
        profile="1g.10gb",
        capability=(9, 0),
        backend="interp",
        aperture_base=address_map.APERTURE_BASES[0],
        gpu_index=1,
        context_index=2,
        memory_limit_bytes=1 << 30,
        threads=2,
        cgroup_procs=("a", "b"),
    )


def test_a_worker_config_survives_the_channel() -> None:
    message = spawn.decode(spawn.encode({"type": "spawn", "worker": config().to_json()}))
    assert spawn.WorkerConfig.from_json(message["worker"]) == config()


def test_a_worker_config_is_strict() -> None:
    document = config().to_json()
    with pytest.raises(ValueError, match="unknown worker fields"):
        spawn.WorkerConfig.from_json({**document, "colour": "red"})
    del document["threads"]
    with pytest.raises(ValueError, match="threads"):
        spawn.WorkerConfig.from_json(document)


@pytest.mark.parametrize("data", [b"[]", b'{"no": "type"}', b"\xff", b'{"type": 1}'])
def test_garbage_on_a_channel_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        spawn.decode(data)
