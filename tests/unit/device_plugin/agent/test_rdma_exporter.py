"""The exporter's metrics of RDMA: names, labels, and what a node without hcad or a lost hcad has."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from device_plugin.errors import HcadError, HcadUnreachable
from device_plugin.exporter.traffic import TrafficSource
from support.worlds.scraped_fabric import FUNCTION, NODE, TRAFFIC, scrape_rdma


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parsed(text):
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def test_a_port_has_the_names_of_node_exporter_and_the_pod_that_holds_it() -> None:
    found = samples(scrape_rdma())
    port = {"device": FUNCTION, "port": "1", "hca": "1", "Hostname": NODE}
    port |= {"namespace": "ml", "pod": "a"}
    prefix = "node_infiniband_port"
    for name, value in (
        (f"{prefix}_data_received_bytes_total", 1000),
        (f"{prefix}_data_transmitted_bytes_total", 2000),
        (f"{prefix}_packets_received_total", 10),
        (f"{prefix}_packets_transmitted_total", 20),
        ("tessera_rdma_local_received_bytes_total", 300),
        ("tessera_rdma_local_transmitted_bytes_total", 400),
        ("tessera_rdma_queue_pairs", 2),
        ("tessera_rdma_registered_bytes", 4096),
    ):
        assert found[name] == [(port, value)], name


def test_pairs_of_pods_and_denials_are_labelled_by_verb_and_policy() -> None:
    found = samples(scrape_rdma())
    ends = {"source_namespace": "ml", "source_pod": "a", "Hostname": NODE}
    pair = ends | {"destination_namespace": "ml", "destination_pod": "b", "verb": "Write"}
    assert found["tessera_rdma_requests_total"] == [(pair, 5)]
    assert found["tessera_rdma_request_bytes_total"] == [(pair, 1500)]
    denied = {"destination_namespace": "db", "destination_pod": "c", "verb": "Read"}
    denied |= {"policy": "db/closed", "action": "denied"}
    policies = "db/p0, db/p1, db/p2, db/p3"
    audited = {"destination_namespace": "", "destination_pod": "", "verb": "Connect"}
    audited |= {"policy": policies, "action": "audited"}
    assert found["tessera_rdma_denials_total"] == [(ends | denied, 7), (ends | audited, 1)]
    assert found["tessera_rdma_unlisted_denials_total"] == [({}, 1)]
    assert found["tessera_rdma_revoked_queue_pairs_total"] == [({}, 2)]
    assert found["tessera_hcad_up"] == [({}, 1)]


def test_hostile_names_are_escaped() -> None:
    name = 'ml/a"} 1\nfake_metric 5\\'
    text = scrape_rdma(replace(TRAFFIC, functions=(replace(TRAFFIC.functions[0], pod=name),)))
    assert "fake_metric" not in samples(text)
    assert samples(text)["tessera_rdma_queue_pairs"][0][0]["pod"] == name.partition("/")[2]


def test_a_node_without_hcad_has_no_metric_and_a_lost_hcad_is_reported() -> None:
    assert scrape_rdma(None) == ""
    assert list(samples(scrape_rdma(away=True))) == ["tessera_hcad_up"]
    assert samples(scrape_rdma(away=True))["tessera_hcad_up"] == [({}, 0)]


@contextmanager
def hcad_with(path: Path, result: Any) -> Iterator[None]:
    """Serve one result to every request of one client."""

    def answer() -> None:
        client, _ = listener.accept()
        with client, client.makefile("rb") as lines:
            for line in lines:
                reply = {"id": json.loads(line)["id"], "result": result}
                client.sendall(json.dumps(reply).encode() + b"\n")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


def test_counters_are_read_from_hcad_s_socket_at_most_once_a_second(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "hcad.sock"
    source = TrafficSource(path, clock=lambda: now[0])
    assert source.traffic() is None
    with hcad_with(path, asdict(TRAFFIC)):
        assert source.traffic() is None, "queried again within a second"
        now[0] = 1.0
        assert source.traffic() == TRAFFIC
        source.close()


def test_counters_of_another_version_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "hcad.sock"
    source = TrafficSource(path)
    with hcad_with(path, {"functions": []}):
        with pytest.raises(HcadError, match="another version"):
            source.traffic()
        source.close()


def test_a_socket_without_a_server_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "hcad.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    with pytest.raises(HcadUnreachable):
        TrafficSource(path).traffic()
