"""The exporter compared with dcgm-exporter's own list: names, types, and documented omissions."""

import re
import tomllib
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as classic

from device_plugin.exporter.families import OF_GPU, OF_INSTANCE
from support.worlds.scraped_node import scrape

ROOT = Path(__file__).parents[4]
THEIRS = tomllib.loads(
    (ROOT / "tests/support/recorded/dcgm_counters.toml").read_text(encoding="utf-8")
)
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
FIRST_LABELS = ["gpu", "UUID", "pci_bus_id", "device", "modelName"]
"""The labels that dcgm-exporter 4.8 writes on each series of a GPU, from its template."""


def kinds(*parts: str) -> dict[str, str]:
    return {name: kind for part in parts for kind, names in THEIRS[part].items() for name in names}


def test_each_of_dcgm_s_names_that_we_have_is_in_their_list_with_the_same_type() -> None:
    ours = {row.name: row.kind for row in (*OF_GPU, *OF_INSTANCE) if row.name.startswith("DCGM_")}
    theirs = kinds("default", "offered")
    assert {name: theirs.get(name) for name in ours} == ours


def test_each_default_metric_of_dcgm_exporter_is_exported_or_documented_as_absent() -> None:
    ours = {row.name for row in (*OF_GPU, *OF_INSTANCE)}
    (absent,) = re.findall(r"by default, these are missing.*?\n- ", DOCUMENT, re.DOTALL)
    missing = {name for name, kind in kinds("default").items() if kind != "label"} - ours
    assert missing == set(re.findall(r"`(DCGM_\w+)`", absent))


def test_labels_are_theirs() -> None:
    samples = [one for family in classic(scrape()) for one in family.samples]
    of_gpus = [one for one in samples if one.name.startswith("DCGM_")]
    assert of_gpus
    labels = [*FIRST_LABELS, "Hostname", *THEIRS["default"]["label"]]
    for one in of_gpus:
        assert [name for name in labels if name not in one.labels] == []
        extra = {"GPU_I_PROFILE", "GPU_I_ID", "pod", "namespace", "container"}
        assert set(one.labels) - set(labels) <= extra
        assert ("GPU_I_ID" in one.labels) == ("GPU_I_PROFILE" in one.labels)
