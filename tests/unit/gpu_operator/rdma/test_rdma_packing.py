"""Tables in an object: readable while they are small, and safe against decompression bombs."""

import base64
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_operator.api.v1alpha1.rdma import packing
from gpu_operator.api.v1alpha1.rdma.packing import Encoding, Packed, Packer, digest, unpack
from rdma import codec
from rdma.errors import TablesError
from rdma.tables import Endpoint, Identity, NodeTables, Pod


def tables(pods: int, node: str = "a", generation: int = 1) -> NodeTables:
    """Return tables for this many pods of the cluster, one of them on the node."""
    identity = Identity(1)
    ends = tuple(Endpoint(f"10.0.{at >> 8}.{at & 255}", 1, f"ml/p{at}") for at in range(pods))
    own = (Pod(f"uid-{node}", f"ml/{node}", 1, ("10.0.0.0",)),)
    return NodeTables(generation, node, (), (identity,), ends, own)


def read(packed: Packed) -> NodeTables:
    return codec.decode(unpack(packed.encoding.value, packed.text))


@pytest.mark.parametrize(("pods", "encoding"), [(3, Encoding.PLAIN), (9000, Encoding.DEFLATE)])
def test_packed_tables_can_be_unpacked(pods: int, encoding: Encoding) -> None:
    made = tables(pods)
    found = Packer().pack(made)
    assert found.encoding is encoding
    assert read(found) == made
    assert found.digest == digest(found.encoding.value, found.text)
    if encoding is Encoding.DEFLATE:
        assert len(found.text) < len(codec.encode(made)) // 4
    else:
        assert found.text == codec.encode(made)


def test_the_common_part_of_tables_is_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []

    def count_write(one: NodeTables, write: Callable[[NodeTables], str] = codec.shared_text) -> str:
        written.append(one.node)
        return write(one)

    monkeypatch.setattr(codec, "shared_text", count_write)
    packer, first = Packer(), tables(9000)
    for node in "abc":
        made = replace(first, node=node, pods=(replace(first.pods[0], name=f"ml/{node}"),))
        assert read(packer.pack(made)) == made
    assert written == ["a"]
    other = replace(first, endpoints=first.endpoints[1:])
    assert read(packer.pack(other)) == other
    assert read(packer.pack(first)) == first
    assert written == ["a", "a", "a"]


def test_tables_too_large_for_an_object_are_refused_with_their_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "MAX_PACKED_BYTES", 100)
    with pytest.raises(TablesError, match="the limit is 100"):
        Packer().pack(tables(9000))


def test_tables_over_the_limit_are_refused_before_compression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next, smaller tables are packed correctly."""
    monkeypatch.setattr(packing, "MAX_BYTES", 1000)
    packer, small = Packer(), tables(3)
    with pytest.raises(TablesError, match="the limit is 1000"):
        packer.pack(tables(9000))
    assert read(packer.pack(small)) == small


def test_a_decompression_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_BYTES", 1000)
    bomb = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()
    with pytest.raises(TablesError, match="more than 1000 bytes"):
        unpack("Deflate", bomb)


@pytest.mark.parametrize(
    ("encoding", "held"),
    [("Deflate", "no base64!"), ("Deflate", "aGVsbG8="), ("Brotli", "{}"), ("Deflate", "")],
)
def test_a_text_with_the_wrong_encoding_is_refused(encoding: str, held: str) -> None:
    with pytest.raises(TablesError, match="tables: "):
        unpack(encoding, held)
