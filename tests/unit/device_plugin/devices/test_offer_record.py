"""The record of a node's last offer is used only if it is valid."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from device_plugin.agent.offer_record import OfferRecord
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Shared, SharingKind
from vgpu_sim.exec import own_files

GPU = "GPU-11111111-1111-4111-8111-111111111111"
HALVES = Shared(name="gpu", offered_as="gpu.shared", replicas=2, kind=SharingKind.MPS)
SHARING = {GPU: (HALVES,)}


@pytest.fixture
def record(tmp_path: Path) -> OfferRecord:
    made = OfferRecord(tmp_path / "offered.json", "node-1")
    made.write(Strategy.SINGLE, SHARING)
    return made


def put(directory: Path, *keys: Any, value: Any) -> None:
    """Change one value of the record."""
    path = directory / "offered.json"
    document = one = json.loads(path.read_text())
    for key in keys[:-1]:
        one = one[key]
    one[keys[-1]] = value
    path.write_text(json.dumps(document))


def test_the_next_agent_reads_the_last_one_s_record(record: OfferRecord, tmp_path: Path) -> None:
    read = OfferRecord(tmp_path / "offered.json", "node-1").read()
    assert read == (Strategy.SINGLE, SHARING)
    put(tmp_path, "version", value=1)  # the same, as written by a JSON library
    assert record.read() == read
    assert (tmp_path / "offered.json").stat().st_mode & 0o777 == 0o600
    record.write(Strategy.MIXED, {GPU: ()})
    assert record.read() == (Strategy.MIXED, {})
    record.remove()
    assert record.read() is None
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_that_is_there_already(record: OfferRecord, tmp_path: Path) -> None:
    (tmp_path / "offered.json").unlink()
    record.write(Strategy.SINGLE, dict(SHARING))
    assert not list(tmp_path.iterdir())


SHARE = ("sharing", GPU, 0)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("version",), 2),
        (("version",), True),
        (("node",), "node-2"),
        (("node",), None),
        (("strategy",), "double"),
        (("strategy",), ["single"]),
        (("more",), 1),
        (("sharing",), []),
        (("sharing", "GPU-1"), []),
        (("sharing", GPU + "\n"), []),
        (("sharing", "MIG-" + GPU[4:]), []),
        (("sharing", GPU), [{"name": "gpu"}]),
        ((*SHARE, "replicas"), 49),
        ((*SHARE, "replicas"), 1),
        ((*SHARE, "replicas"), "2"),
        ((*SHARE, "replicas"), 1e400),
        ((*SHARE, "kind"), "none"),
        ((*SHARE, "more"), 1),
        ((*SHARE, "offeredAs"), "../../etc/passwd"),
        ((*SHARE, "offeredAs"), "a/b"),
        ((*SHARE, "offeredAs"), "gpu\n"),
        ((*SHARE, "offeredAs"), "gpü"),
        ((*SHARE, "offeredAs"), "."),
        ((*SHARE, "offeredAs"), ""),
        ((*SHARE, "offeredAs"), "g" * 64),
        ((*SHARE, "name"), "*"),
    ],
)
def test_one_invalid_value_invalidates_the_record(
    keys: tuple[Any, ...], value: Any, record: OfferRecord, tmp_path: Path
) -> None:
    put(tmp_path, *keys, value=value)
    assert record.read() is None


def test_a_record_with_a_resource_shared_in_two_ways_is_refused(
    record: OfferRecord, tmp_path: Path
) -> None:
    share = json.loads((tmp_path / "offered.json").read_text())["sharing"][GPU][0]
    put(tmp_path, "sharing", GPU, value=[share, share | {"replicas": 3}])
    assert record.read() is None
    many = [share | {"name": f"mig-{n}g"} for n in range(33)]
    put(tmp_path, "sharing", GPU, value=many[:32])
    assert record.read() is not None
    put(tmp_path, "sharing", GPU, value=many)
    assert record.read() is None


def test_a_record_of_too_many_gpus_is_refused(record: OfferRecord, tmp_path: Path) -> None:
    gpus = {f"GPU-{n:08x}-1111-4111-8111-111111111111": [] for n in range(65)}
    put(tmp_path, "sharing", value=gpus)
    assert record.read() is None


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b"{}" + b" " * (256 << 10)])
def test_a_file_that_is_not_a_record_is_refused(
    text: bytes, record: OfferRecord, tmp_path: Path
) -> None:
    (tmp_path / "offered.json").write_bytes(text)
    assert record.read() is None


def test_links_and_pipes_are_not_read(record: OfferRecord, tmp_path: Path) -> None:
    path = tmp_path / "offered.json"
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")
    assert record.read() is None
    path.unlink()
    os.mkfifo(path)
    assert record.read() is None


def test_a_failed_write_leaves_no_older_record(
    record: OfferRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "replace", lambda *_: None)  # so that the write fails silently
    record.write(Strategy.MIXED, SHARING)
    assert not (tmp_path / "offered.json").exists()
