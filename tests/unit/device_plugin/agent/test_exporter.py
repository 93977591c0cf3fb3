"""The exporter's metrics: dcgm-exporter's names, types and labels, from gpud's inventory."""

import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as classic

from device_plugin import config, serving
from device_plugin.errors import SettingsError
from device_plugin.exporter import app
from device_plugin.exporter.collector import InventoryCollector
from device_plugin.exporter.families import OF_GPU, OF_INSTANCE, OF_NODE
from device_plugin.exporter.source import Source
from support.worlds.scraped_node import NODE, SLICE, SLICED, Fixed, scrape
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.nvml import DRIVER_RELEASE
from vgpu_sim.hal.observe.modelled_report import CLOCKS, MODELLED


def test_every_figure_has_the_labels_that_dashboards_ask_for() -> None:
    families = {one.name: one for one in classic(scrape())}
    common = {
        "Hostname": "worker-1",
        "modelName": "NVIDIA H100",
        "DCGM_FI_DRIVER_VERSION": DRIVER_RELEASE,
    }
    common["pci_bus_id"] = "00000000:01:00.0"
    pod = {"pod": "train-0", "namespace": "team", "container": "main"}
    sliced = {"gpu": "0", "UUID": "GPU-1", "device": "nvidia0", **common}
    whole = {"gpu": "1", "UUID": "GPU-2", "device": "nvidia1", **common, **pod}
    mig = {**sliced, **pod, "GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": "9"}
    power = families["DCGM_FI_DEV_POWER_USAGE"].samples
    assert [(one.labels, one.value) for one in power] == [(sliced, 123.456), (whole, 123.456)]
    busy = families["DCGM_FI_PROF_GR_ENGINE_ACTIVE"].samples
    assert [(one.labels, one.value) for one in busy] == [(mig, 0.5), (whole, 0.5)]


def test_parts_of_a_gpu_instance_are_series_of_their_own_with_one_free_memory() -> None:
    parts = tuple(
        replace(
            SLICE,
            uuid=f"MIG-{at}",
            profile="1c.3g.40gb",
            ci_id=at,
            compute_start=at,
            holders=(),
            memory_used_bytes=10 << 20,
            shared_used_bytes=30 << 20,
        )
        for at in range(2)
    )
    node = replace(NODE, gpus=(replace(SLICED, instances=parts),))
    families = {one.name: one for one in classic(scrape(node))}
    free = families["DCGM_FI_DEV_FB_FREE"].samples
    assert [(one.labels["GPU_I_ID"], one.labels["GPU_CI_ID"], one.value) for one in free] == [
        ("9", "0", 70),
        ("9", "1", 70),
    ]
    assert [one.value for one in families["DCGM_FI_DEV_FB_USED"].samples] == [10, 10]


def test_memory_is_exported_in_whole_mebibytes_and_never_as_less_than_used() -> None:
    families = {one.name: one for one in classic(scrape())}
    assert families["DCGM_FI_DEV_FB_USED"].samples[0].value == 31
    assert families["DCGM_FI_DEV_FB_FREE"].samples[0].value == 69


def test_a_counter_of_dcgm_keeps_its_name_and_its_type() -> None:
    text = scrape()
    name = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    assert f"# HELP {name} Total energy consumption since boot (in mJ). Modelled: " in text
    assert f"# TYPE {name} counter\n{name}{{" in text
    assert "# TYPE tessera_kernel_seconds_total counter\n" in text
    assert "untyped" not in text


def test_openmetrics_is_served_on_request_with_the_same_names() -> None:
    text = scrape(accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert text.endswith("# EOF\n")
    assert list(openmetrics(text))  # the strict parser accepts it
    named = re.compile(r"^(\w+)[{ ]", re.MULTILINE).findall
    assert named(text) == named(scrape())


def test_every_row_is_exported_once() -> None:
    rows = [row.name for row in (*OF_NODE, *OF_GPU, *OF_INSTANCE)]
    assert len(set(rows)) == len(rows)
    assert {one.name for one in classic(scrape()) if one.samples} == set(rows)


def test_the_help_text_states_that_a_metric_is_not_measured() -> None:
    helps = {one.name: one.documentation for one in classic(scrape())}
    assert helps["DCGM_FI_DEV_POWER_USAGE"].endswith(
        "Modelled: what a board of this kind would show."
    )
    assert helps["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"].endswith("Of injected faults.")
    assert helps["DCGM_FI_DEV_GPU_UTIL"] == "GPU utilization (in %)."
    for row in (*OF_NODE, *OF_GPU, *OF_INSTANCE):
        assert ("Modelled: " in helps[row.name]) == (row.source == "modelled")


@pytest.mark.parametrize("clock", CLOCKS)
def test_whether_events_measure_modelled_time_is_a_figure(clock: str) -> None:
    families = {one.name: one for one in classic(scrape(replace(NODE, clock=clock)))}
    (sample,) = families["tessera_event_clock_modelled"].samples
    assert (sample.labels, sample.value) == ({}, clock == MODELLED)


def test_without_gpud_there_is_no_old_figure() -> None:
    assert [one.name for one in classic(scrape(None))] == ["tessera_gpud_up"]
    assert "tessera_gpud_up 0.0\n" in scrape(None)


def test_a_gpu_off_the_bus_has_its_xid_and_health_but_no_readings() -> None:
    off = admin.Fault("f", "off_bus", "", 1, 0)
    xid = admin.Xid(3, 79, 1, "", 0, "")
    gone = replace(SLICED, faults=(off,), xids=(xid,), health="Unhealthy: Xid 79")
    whole = replace(NODE.gpus[1], faults=(off,))
    of_gpus = {
        *("DCGM_FI_DEV_XID_ERRORS", "tessera_xid_sequence", "tessera_gpu_healthy"),
        *("tessera_gpu_lost", "tessera_gpu_instances"),
    }
    for lost, other in ((gone, NODE.gpus[1]), (whole, SLICED)):
        families = list(classic(scrape(replace(NODE, gpus=(lost, other)))))
        named = {
            uuid: {
                sample.name
                for family in families
                for sample in family.samples
                if sample.labels.get("UUID") == uuid
            }
            for uuid in (lost.uuid, other.uuid)
        }
        own = {name for name in named[other.uuid] if name.startswith("tessera_")}
        assert named[lost.uuid] == of_gpus | own
        assert "DCGM_FI_DEV_POWER_USAGE" in named[other.uuid]
        assert "DCGM_FI_DEV_FB_USED" in named[other.uuid]
        by_name = {one.name: one for one in families}
        presence = by_name["tessera_gpu_lost"].samples
        assert {one.labels["UUID"]: one.value for one in presence} == {lost.uuid: 1, other.uuid: 0}
        last = {one.labels["UUID"]: one.value for one in by_name["DCGM_FI_DEV_XID_ERRORS"].samples}
        assert last[gone.uuid] == (79 if lost is gone else 0)


def test_a_hang_or_heat_leaves_the_readings() -> None:
    for kind in ("hang", "thermal"):
        hot = replace(SLICED, faults=(admin.Fault("f", kind, "", 1, 0),))
        families = {one.name: one for one in classic(scrape(replace(NODE, gpus=(hot,))))}
        assert families["DCGM_FI_DEV_POWER_USAGE"].samples


def test_names_of_pods_cannot_add_series() -> None:
    """A holder's name comes from the kubelet; even an invalid name becomes one label's value."""
    holder = admin.Holder("u", "team", 'x"} 1\nDCGM_FI_DEV_GPU_UTIL 5\n# {a="', "c\\")
    node = replace(NODE, gpus=(replace(SLICED, instances=(replace(SLICE, holders=(holder,)),)),))
    samples = [one for family in classic(scrape(node)) for one in family.samples]
    assert len([one for one in samples if one.name == "DCGM_FI_DEV_GPU_UTIL"]) == 1
    assert {one.labels.get("pod") for one in samples} == {None, holder.name}


@pytest.fixture
def gpud(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """Yield the socket of a fake gpud, whose answers are invalid, and its requests."""
    path, requested = tmp_path / "s", list[bytes]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    requested.append(connection.recv(4096))
                    connection.sendall(b'{"id": 1, "result": {"protocol": 0}}\n')

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path, requested
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_gpud_is_queried_once_a_period_however_many_scrapes_there_are(
    gpud: tuple[Path, list[bytes]],
) -> None:
    path, requested = gpud
    now = [100.0]
    source = Source(path, clock=lambda: now[0])
    for _ in range(50):
        with pytest.raises(Exception, match="another version"):
            source.inventory()
    assert len(requested) == 1
    now[0] += 1
    with pytest.raises(Exception, match=r"another version|gpud at"):
        source.inventory()
    assert b'"inventory"' in requested[0]


def test_it_answers_over_http() -> None:
    collector = InventoryCollector(Fixed(NODE), "n")
    server = serving.server(0, lambda path, accept: app.answer(collector, path, accept))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_address[1]}"
        with urllib.request.urlopen(f"{base}/metrics?x=1", timeout=10) as reply:
            assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"DCGM_FI_DEV_GPU_TEMP{" in reply.read()
        with urllib.request.urlopen(f"{base}/health", timeout=10) as reply:
            assert reply.read() == b"ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{base}/secret", timeout=10)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_settings_are_checked() -> None:
    read = config.exporter_from_environment
    assert read({"NODE_NAME": "n"}) == config.ExporterSettings("n")
    for wrong in ({}, {"NODE_NAME": "n", "TESSERA_EXPORTER_PORT": "http"}):
        with pytest.raises(SettingsError):
            read(wrong)
