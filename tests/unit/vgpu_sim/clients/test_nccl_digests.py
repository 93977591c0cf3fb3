"""SHA-256, HMAC and SipHash of libnccl: the vectors of their publications, and lengths around blocks."""

import ctypes
import hashlib
import hmac
import subprocess

import pytest

from support.oracles.siphash import siphash
from vgpu_sim.native import build, catalogue

FOLDER = catalogue.CLIENTS / "math" / "nccl"
SOURCES = [FOLDER / "connections" / f"{name}.c" for name in ("secrets", "sha256", "siphash")]
STATE_BYTES = 512  # more than each state has
KEY = bytes(range(16))
# The reference implementation's values for the bytes 0, 1, 2 …, by their number.
SIPHASH = {
    8: "3b62a9ba6258f5610f83e264f31497b4",
    9: "264499060ad9baabc47f8b02bb6d71ed",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    63: "5150d1772f50834a503e069a973fbd7c",
    64: "1eaf077dc0d4cd3f8cad4d383658a74b",
}
# NIST, examples of SHA-256.
SHA256 = {
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    b"a" * 1_000_000: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}
# RFC 4231, test cases 1 to 4, 6 and 7: key, data and tag.
HMAC = [
    (
        b"\x0b" * 20,
        b"Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    ),
    (
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    (
        b"\xaa" * 20,
        b"\xdd" * 50,
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
    ),
    (
        bytes(range(1, 26)),
        b"\xcd" * 50,
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
    ),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        b"\xaa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data."
        b" The key needs to be hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("digests") / "digests.so"
    command = [
        build.compiler(),
        "-std=c11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
    ]
    subprocess.run(
        [*command, f"-I{FOLDER}", *map(str, SOURCES), "-o", str(made)], check=True, timeout=60
    )
    return ctypes.CDLL(str(made))


def compute_sha256(library: ctypes.CDLL, *parts: bytes) -> str:
    state, digest = ctypes.create_string_buffer(STATE_BYTES), ctypes.create_string_buffer(32)
    library.tsr_sha256_begin(state)
    for part in parts:
        library.tsr_sha256_add(state, part, ctypes.c_size_t(len(part)))
    library.tsr_sha256_end(state, digest)
    return digest.raw.hex()


def compute_hmac(library: ctypes.CDLL, key: bytes, *parts: bytes) -> str:
    state, tag = ctypes.create_string_buffer(STATE_BYTES), ctypes.create_string_buffer(32)
    library.tsr_hmac_begin(state, key, ctypes.c_size_t(len(key)))
    for part in parts:
        library.tsr_hmac_add(state, part, ctypes.c_size_t(len(part)))
    library.tsr_hmac_end(state, tag)
    assert state.raw == bytes(STATE_BYTES)  # wiped
    return tag.raw.hex()


def test_digests_are_those_of_the_publications(library: ctypes.CDLL) -> None:
    for text, digest in SHA256.items():
        assert compute_sha256(library, text) == digest
    for key, data, tag in HMAC:
        assert compute_hmac(library, key, data) == tag


def test_digests_of_all_lengths_and_parts_are_right(library: ctypes.CDLL) -> None:
    text = bytes(number % 251 for number in range(200))
    for length in range(len(text)):
        parts = text[: length // 3], text[length // 3 : length]
        assert compute_sha256(library, *parts) == hashlib.sha256(text[:length]).hexdigest()
        key = text[:length]
        assert compute_hmac(library, key, *parts) == hmac.digest(key, key, "sha256").hex()


def test_siphash_is_that_of_the_reference_implementation(library: ctypes.CDLL) -> None:
    data = bytes(range(70))
    value = ctypes.create_string_buffer(16)
    for size in range(8, len(data)):
        number = ctypes.c_uint64(int.from_bytes(data[:8], "little"))
        library.tsr_siphash(value, KEY, number, data[8:size], ctypes.c_size_t(size - 8))
        assert value.raw.hex() == SIPHASH.get(size, value.raw.hex())
        assert value.raw == siphash(KEY, data[:size])


def test_all_bytes_are_compared(library: ctypes.CDLL) -> None:
    secret = bytes(range(1, 33))
    compare = library.tsr_is_equal
    compare.restype = ctypes.c_bool
    assert compare(secret, secret, ctypes.c_size_t(32))
    for at in range(32):
        for bit in range(8):
            other = bytearray(secret)
            other[at] ^= 1 << bit
            assert not compare(secret, bytes(other), ctypes.c_size_t(32))
