"""Tables in an object: legible while they are small, and no bomb when they are not."""

import base64
import zlib

import pytest

from gpu_operator.api.v1alpha1.rdma import packing
from gpu_operator.api.v1alpha1.rdma.packing import Encoding, pack, unpack
from rdma.errors import TablesError


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("{}", Encoding.PLAIN), ('["10.0.0.1","ml/pod"],' * 20000, Encoding.DEFLATE)],
)
def test_what_is_packed_comes_out_again(text: str, encoding: Encoding) -> None:
    found, held = pack(text)
    assert found is encoding
    assert unpack(found.value, held) == text
    assert len(held) <= max(len(text) // 5, len("{}"))


def test_what_no_object_can_hold_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_PACKED_BYTES", 100)
    with pytest.raises(TablesError, match="100 at most"):
        pack("x" * 200 + "".join(map(str, range(100_000))))


def test_a_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_BYTES", 1000)
    bomb = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()
    with pytest.raises(TablesError, match="more than 1000 bytes"):
        unpack("Deflate", bomb)


@pytest.mark.parametrize(
    ("encoding", "held"),
    [("Deflate", "no base64!"), ("Deflate", "aGVsbG8="), ("Brotli", "{}"), ("Deflate", "")],
)
def test_what_is_not_what_it_says_is_refused(encoding: str, held: str) -> None:
    with pytest.raises(TablesError, match="tables: "):
        unpack(encoding, held)
