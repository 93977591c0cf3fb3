"""Fat binaries: the choice of PTX, decompression, and hostile input."""

import random
import struct

import pytest

from support.kernels.fat_binaries import CUBIN, make_entry, make_fat_binary, ptx_of
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.compiler.errors import InvalidPtxError
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import MAX_IMAGE_BYTES, NO_PTX_REMEDY
from vgpu_sim.worker.modules import fat_binary
from vgpu_sim.worker.modules.images import ImageError, unpack

HOPPER = (9, 0)


def choose_target(capability: tuple[int, int], *architectures: str) -> str:
    """Return the target of the PTX that is chosen from a fat binary with these targets."""
    entries = [make_entry(int(one.rstrip("af")), ptx_of(one)) for one in architectures]
    text = fat_binary.choose_ptx(make_fat_binary(*entries), capability).decode()
    return text.partition("sm_")[2].partition("\n")[0]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_compressed_text_is_read(compression: str) -> None:
    text = ptx_of("80", "// long\n" * 5000)
    data = make_fat_binary(
        make_entry(90, b"\x7fELF", kind=CUBIN), make_entry(80, text, compression=compression)
    )
    assert fat_binary.choose_ptx(data, HOPPER) == text.encode()


@pytest.mark.parametrize(
    ("capability", "architectures", "expected"),
    [
        ((9, 0), ("80", "90", "75"), "90"),
        ((8, 0), ("80", "90", "75"), "80"),
        ((9, 0), ("90", "90a", "80"), "90a"),
        ((8, 9), ("80", "90", "90a"), "80"),
        ((10, 3), ("100", "100a", "90"), "100"),
        ((10, 3), ("100", "100f", "100a"), "100f"),
        ((10, 0), ("100", "100f", "100a"), "100a"),
        ((12, 0), ("100f", "100a", "90", "90a"), "90"),
    ],
)
def test_the_highest_target_that_runs_is_chosen(
    capability: tuple[int, int], architectures: tuple[str, ...], expected: str
) -> None:
    assert choose_target(capability, *architectures) == expected
    assert choose_target(capability, *reversed(architectures)) == expected


def with_machine_code(machine: tuple[int, ...], *architectures: str) -> bytes:
    """Return a fat binary with machine code for some architectures and PTX for others."""
    cubins = [make_entry(one, b"code", kind=CUBIN) for one in machine]
    texts = [make_entry(int(one.rstrip("af")), ptx_of(one)) for one in architectures]
    return make_fat_binary(*cubins, *texts)


@pytest.mark.parametrize(
    ("capability", "machine", "architectures", "source"),
    [
        ((9, 0), (80, 90, 100, 120), ("120",), "120"),
        ((9, 0), (90,), ("120", "100", "120f", "100a"), "100"),
        ((10, 3), (100,), ("120",), "120"),
        ((8, 9), (80,), ("90", "90a"), "90"),
        ((9, 0), (90,), ("80", "120"), "80"),
    ],
)
def test_machine_code_for_the_device_admits_ptx_for_a_later_one(
    capability: tuple[int, int],
    machine: tuple[int, ...],
    architectures: tuple[str, ...],
    source: str,
) -> None:
    """The author built the kernels for the device, so they exist in a form that suits it."""
    for names in (architectures, tuple(reversed(architectures))):
        text = fat_binary.choose_ptx(with_machine_code(machine, *names), capability)
        module = compile_ptx(text, capability=capability)
        assert [one.name for one in module.functions] == [f"k_{source}"]


@pytest.mark.parametrize(
    ("capability", "machine", "architectures"),
    [
        ((9, 0), (80, 100, 120), ("120",)),  # code for the generations before and after it
        ((8, 0), (86,), ("90",)),  # a later minor version of its generation
        ((9, 0), (90,), ("120a", "120f")),  # PTX that no later device can run
        ((9, 0), (90,), ()),
        ((9, 0), (), ("120",)),
    ],
)
def test_other_ptx_for_a_later_device_is_refused(
    capability: tuple[int, int], machine: tuple[int, ...], architectures: tuple[str, ...]
) -> None:
    with pytest.raises(fat_binary.NoPtxError):
        fat_binary.choose_ptx(with_machine_code(machine, *architectures), capability)


def test_ptx_for_a_later_device_is_refused_by_the_instruction_that_the_device_lacks() -> None:
    body = """
.visible .entry k() {
  .reg .b64 %d<3>;
  fma.rn.f32x2 %d0, %d1, %d1, %d2;
  ret;
}
"""
    data = make_fat_binary(make_entry(90, b"", kind=CUBIN), make_entry(120, ptx_of("120", body)))
    text = fat_binary.choose_ptx(data, HOPPER)
    with pytest.raises(InvalidPtxError, match=r"fma\.rn\.f32x2 needs \.target sm_100"):
        compile_ptx(text, capability=HOPPER, partial=True)


def test_a_comment_that_looks_like_a_target_stays_as_it_is() -> None:
    text = "// .target sm_120\n" + ptx_of("120")
    data = make_fat_binary(make_entry(90, b"", kind=CUBIN), make_entry(120, text))
    expected = text.replace("\n.target sm_120", "\n.target sm_90").encode()
    assert fat_binary.choose_ptx(data, HOPPER) == expected


def test_without_ptx_the_message_names_the_contents_and_the_remedy() -> None:
    data = make_fat_binary(
        make_entry(80, b"code", kind=CUBIN),
        make_entry(90, b"code", kind=CUBIN),
        make_entry(120, ptx_of("120a")),
    )
    with pytest.raises(ImageError) as raised:
        unpack(data, HOPPER)
    assert raised.value.status == CudaError.NO_BINARY_FOR_GPU
    assert raised.value.log == (
        "the fat binary has no PTX for compute capability 9.0, but PTX for compute_120, machine "
        f"code for sm_80, machine code for sm_90: {NO_PTX_REMEDY}\n"
    )
    for remedy in ("-gencode", 'compile("ptx")', "nvidia-nvjitlink", "TRITON_PTXAS_PATH"):
        assert remedy in NO_PTX_REMEDY


def test_other_images_are_unchanged() -> None:
    assert unpack(b".version 7.0\n", HOPPER) == b".version 7.0\n"


def test_what_is_damaged_or_too_large_is_refused() -> None:
    good = make_fat_binary(make_entry(80, ptx_of("80"), compression="zstd"))
    huge = bytes(MAX_IMAGE_BYTES + 1)
    damaged = {
        "the data ends inside the header": good[:10],
        "unknown version 9": good[:4] + b"\x09" + good[5:],
        "its size exceeds the data": good[:-8],
        "an entry's size exceeds": good[:24] + b"\xff" + good[25:],
        "compressed size exceeds": good[:32] + b"\xff\xff" + good[34:],
        "a size that is out of range": good[:20] + b"\x01" + good[21:],
        "a zstd entry cannot": good[:80] + bytes(len(good) - 80),
        "an LZ4 entry cannot": make_fat_binary(
            make_entry(80, ptx_of("80"), compression="lz4", announced_bytes=8)
        ),
        "an LZ4 entry is empty": make_fat_binary(
            make_entry(80, ptx_of("80"), compression="lz4", announced_bytes=1 << 62)
        ),
        "an entry is larger than 64 MiB": make_fat_binary(
            make_entry(80, huge, compression="zstd", announced_bytes=8)
        ),
        "more than 4096 entries": make_fat_binary(*[make_entry(80, b"")] * 4097),
    }
    for message, data in damaged.items():
        with pytest.raises(fat_binary.FatBinaryError, match=message):
            fat_binary.choose_ptx(data, HOPPER)
    with pytest.raises(ImageError) as raised:
        unpack(good[:-8], HOPPER)
    assert raised.value.status == CudaError.INVALID_IMAGE


def test_random_damage_raises_only_the_documented_errors() -> None:
    good = make_fat_binary(
        make_entry(80, ptx_of("80"), compression="lz4"),
        make_entry(90, ptx_of("90"), compression="zstd"),
        make_entry(75, ptx_of("75")),
    )
    draw = random.Random(26)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data) - 8)
            struct.pack_into("<Q", data, at, draw.choice([0, draw.getrandbits(64), 1 << 63, 255]))
        try:
            fat_binary.choose_ptx(bytes(data), HOPPER)
        except (fat_binary.FatBinaryError, fat_binary.NoPtxError):
            continue


def test_the_chosen_text_compiles() -> None:
    text = fat_binary.choose_ptx(make_fat_binary(make_entry(90, ptx_of("90a"))), HOPPER)
    assert [one.name for one in compile_ptx(text, capability=HOPPER).functions] == ["k_90a"]
