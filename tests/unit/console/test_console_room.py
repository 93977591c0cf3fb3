"""Where slices are and where requested ones go: what exists is never hidden."""

import random
import re
from typing import Any

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

GPU = "n1-gpu-0"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of one H100 with three 2g.20gb and a 1g.10gb, all held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=1)
    mix = ("2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb")
    cluster.put(
        "GPU", synthetic.gpu_document("n1", 0, "h100-80gb", mix, random.Random(1), alike=True)
    )
    return cluster


def claim(one: dict[str, Any]) -> dict[str, Any]:
    """Return a slice as that of a claim."""
    kept = ("profile", "start", "multiprocessors", "health", "memoryBytes", "uuid")
    owner = {"namespace": "ml", "name": "left", "uid": "left"}
    return {key: one[key] for key in kept} | {"claim": owner}


def _request(cluster: SyntheticCluster, *places: tuple[str, int]) -> dict[str, Any]:
    gpu = cluster.objects["GPU"][GPU]
    gpu["spec"]["instances"] = [{"profile": profile, "start": start} for profile, start in places]
    return gpu


def _states(text: str) -> list[str]:
    """Return the states of the drawn boxes: each has a memory and a compute rectangle."""
    (drawing,) = re.findall(r'<svg[^>]*class="gpu-picture".*?</svg>', text, re.DOTALL)
    return re.findall(r'<rect class="s (\w+)', drawing)


@pytest.mark.parametrize("page", ["/", "/nodes/n1", f"/gpus/{GPU}"])
def test_a_requested_place_does_not_cover_the_slice_that_a_pod_holds(
    node: SyntheticCluster, page: str
) -> None:
    gpu = _request(node, ("2g.20gb", 0), ("1g.10gb", 2), ("1g.10gb", 3), ("3g.40gb", 4))
    gpu["status"]["slices"] = gpu["status"]["slices"][:2]  # nothing is at 4
    text = fetch(node, page).text
    assert _states(text) == ["held"] * 4 + ["coming"] * 2  # 3g.40gb has room
    assert "requested: 1g.10gb@2 after 2g.20gb@2 ends; 1g.10gb@3 after 2g.20gb@2 ends" in text


def test_a_small_map_has_no_path_over_slices_and_counts_what_is_requested(
    node: SyntheticCluster,
) -> None:
    for number in range(2, 32):
        synthetic.add_node(node, f"n{number}", "h100-80gb", random.Random(1), alike=True, gpus=1)
    _request(node, ("7g.80gb", 0))
    text = fetch(node, "/").text
    assert 'class="s coming" d=' not in text
    assert "n1: 1 GPUs; slices: 1 requested, 4 held" in text


def test_whole_is_not_requested_of_a_gpu_whose_room_a_claim_holds(node: SyntheticCluster) -> None:
    gpu = _request(node, ("whole", 0))
    gpu["spec"] |= {"layout": None, "allocation": "Both"}
    gpu["status"] |= {"slices": [], "claims": [claim(gpu["status"]["slices"][3])]}
    text = fetch(node, f"/gpus/{GPU}").text
    assert _states(text) == ["claimed"] * 2
    assert "requested: " not in text
    gpu["spec"]["layout"] = "l"  # now it is the layout that requests the whole GPU
    assert "requested: whole@0 after 1g.10gb@6 ends" in fetch(node, f"/gpus/{GPU}").text


def test_room_for_a_profile_lists_free_slices_and_places_beside_held_ones(
    node: SyntheticCluster,
) -> None:
    slices = node.objects["GPU"][GPU]["status"]["slices"]
    slices[1]["holders"] = []  # 2g.20gb@2
    text = fetch(node, "/slices", "profile=2g.20gb").text
    (row,) = re.findall(r"<tr>\s*<td><a href=\"/gpus/.*?</tr>", text, re.DOTALL)
    assert f'href="/slices/{slices[1]["uuid"]}">2g.20gb@2 ' in row
    assert re.findall(r">([^<>]*)</td>", row)[-2:] == ["1", "2g.20gb@2"]
    text = fetch(node, "/slices", "profile=1g.10gb").text
    assert "1g.10gb@2, 1g.10gb@3" in text  # no such slice exists there
    assert "No GPU has a free slice" in fetch(node, "/slices", "profile=4g.40gb").text
    assert "Room for ResourceClaims" not in text
    listed = text.partition("<h2>Slices of this profile</h2>")[2]
    assert "1g.10gb@6" in listed
    assert "2g.20gb" not in listed
    answer = fetch(node, "/slices", "profile=9g.90gb")
    assert answer.status == 400
    assert "no board of the cluster has it: known are: 1c.2g.20gb" in answer.text


def test_room_for_claims_is_where_no_slice_is(node: SyntheticCluster) -> None:
    gpu = node.objects["GPU"][GPU]
    gpu["spec"] |= {"allocation": "DRA", "layout": None, "instances": []}
    gpu["status"] |= {"slices": [], "claims": [claim(gpu["status"]["slices"][0])]}
    text = fetch(node, "/slices", "profile=3g.40gb").text
    room = text.partition("<h2>Room for ResourceClaims</h2>")[2]
    assert re.findall(r'data-label="At one of">([^<]*)<', room) == ["3g.40gb@4"]
    gpu["status"]["health"] = "Unhealthy"
    assert "Room for ResourceClaims" not in fetch(node, "/slices", "profile=3g.40gb").text
