"""The console in the chart: off by default, on loopback alone, with rights to list and watch."""

import pytest

from console.model.watches import KINDS
from gpu_operator import kinds
from support.programs.helm_chart import render, require_helm, rules


@pytest.fixture(scope="module", autouse=True)
def helm_is_there() -> None:
    require_helm()


def test_the_console_is_off_by_default() -> None:
    found = render()
    assert "tessera-console" not in found["Deployment"]
    assert "tessera-console" not in found["ClusterRole"]


def test_its_rights_are_exactly_to_list_and_watch_what_it_follows() -> None:
    found = render("console.enabled=true")
    wanted = {
        (row.group, row.plural, verb)
        for row in map(kinds.find_kind, KINDS)
        for verb in ("list", "watch")
    } | {("policy", "poddisruptionbudgets", "list")}
    assert rules(found, "ClusterRole", "tessera-console") == wanted
    (subject,) = found["ClusterRoleBinding"]["tessera-console"]["subjects"]
    assert subject["name"] == "tessera-console"
    pod = found["Deployment"]["tessera-console"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "tessera-console"


PROXY = {("", "pods/proxy", "get")}


def test_it_may_read_exporters_of_its_namespace_only_if_the_value_permits_it() -> None:
    found = render("console.enabled=true")
    assert "tessera-console" not in found.get("Role", {})
    found = render("console.enabled=true", "console.readExporters=true")
    assert rules(found, "Role", "tessera-console") == PROXY
    assert not PROXY & rules(found, "ClusterRole", "tessera-console")
    binding = found["RoleBinding"]["tessera-console"]
    assert (binding["roleRef"]["kind"], binding["subjects"][0]["name"]) == (
        "Role",
        "tessera-console",
    )


def test_it_may_read_inference_pods_only_if_the_value_permits_it() -> None:
    found = render("console.enabled=true", "console.readInferencePods=true")
    assert rules(found, "ClusterRole", "tessera-console") > PROXY
    assert "tessera-console" not in found.get("Role", {})


def test_it_offers_no_port_and_no_service() -> None:
    found = render("console.enabled=true")
    (container,) = found["Deployment"]["tessera-console"]["spec"]["template"]["spec"]["containers"]
    assert "ports" not in container
    assert container["command"][:3] == ["tessera", "ui", "--in-cluster"]
    for service in found["Service"].values():
        assert "console" not in str(service["spec"]["selector"])
