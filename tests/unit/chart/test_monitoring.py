"""Dashboards and alerts use only metrics and labels that Prometheus gets from Tessera's
exporters.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parsed

from device_plugin.metrics import AgentMetrics
from gpu_operator.render import daemonset
from support.programs.helm_chart import CHART, render, require_helm
from support.programs.promtool import promtool
from support.worlds.scraped_node import scrape
from support.worlds.scraped_operator import operator_scrape

DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
RULES = CHART / "files" / "rules.yaml"
NOT_OURS = re.compile("kube_")  # a metric of kube-state-metrics, as the rule states
# Metrics that dashboard 12239 of dcgm-exporter uses.
PANELS = {
    "GPU Temperature": "DCGM_FI_DEV_GPU_TEMP",
    "GPU Avg. Temp": "DCGM_FI_DEV_GPU_TEMP",
    "GPU Power Usage": "DCGM_FI_DEV_POWER_USAGE",
    "GPU Power Total": "DCGM_FI_DEV_POWER_USAGE",
    "GPU SM Clocks": "DCGM_FI_DEV_SM_CLOCK",
    "GPU Utilization": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "Tensor Core Utilization": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "GPU Framebuffer Mem Used": "DCGM_FI_DEV_FB_USED",
}


@cache
def samples() -> dict[str, list[dict[str, str]]]:
    """Names and labels of all samples that a Prometheus scrapes."""
    agent = generate_latest(AgentMetrics()).decode()
    found: dict[str, list[dict[str, str]]] = {}
    for text in (scrape(), operator_scrape(), agent):
        raw = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"}
        for family in parsed(text):
            for one in family.samples:
                name = one.name if one.name in raw else one.name.removesuffix("_total")
                found.setdefault(name, []).append(one.labels)
    return found


def selectors(expression: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each metric in an expression, with the labels that it must have."""
    pattern = r"\b((?:DCGM|tessera|controller|workqueue|rest|leader|kube)_\w+)(?:\{([^}]*)\})?"
    for name, labels in re.findall(pattern, expression):
        yield name, dict(re.findall(r'(\w+)=~?"([^"]*)"', labels))


def missing(expression: str) -> list[str]:
    """Return the metrics in an expression that no sample matches."""
    problems = []
    for name, wanted in selectors(expression):
        if NOT_OURS.match(name):
            continue
        fits = any(
            all(
                value.startswith("$") or re.fullmatch(value, labels.get(label, ""))
                for label, value in wanted.items()
            )
            for labels in samples().get(name, ())
        )
        if not fits:
            problems.append(f"{name}{wanted}")
    return problems


def panels(path: Path) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["panels"]
    return read


def test_a_missing_metric_is_detected() -> None:
    assert missing('sum(tessera_gpu_slices{held="maybe"})')
    assert missing("DCGM_FI_DEV_NO_SUCH_FIELD")
    assert missing('DCGM_FI_DEV_GPU_TEMP{gpu=~"$gpu", GPU_I_ID=~"9"}')  # one per GPU
    assert not missing('DCGM_FI_DEV_GPU_TEMP{gpu=~"$gpu"}')


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_data(path: Path) -> None:
    shown = panels(path)
    assert len({one["id"] for one in shown}) == len(shown)
    for panel in shown:
        assert panel["targets"]
        for target in panel["targets"]:
            assert list(selectors(target["expr"])), target["expr"]
            assert missing(target["expr"]) == []
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                name, _ = next(selectors(target["expr"]))
                assert any(label in labels for labels in samples()[name]), (name, label)


def test_the_variables_of_a_dashboard_have_values() -> None:
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text(encoding="utf-8"))["templating"]["list"]:
            if variable["type"] == "query":
                assert missing(variable["query"]) == []


def test_every_panel_of_dashboard_12239_exists() -> None:
    shown = {one["title"]: one for one in panels(CHART / "files/dashboards/gpus.json")}
    for title, metric in PANELS.items():
        assert metric in shown[title]["targets"][0]["expr"]


def test_alerts_use_existing_metrics_and_labels() -> None:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert missing(rule["expr"]) == [], rule["alert"]
        if NOT_OURS.search(rule["expr"]):
            continue
        name, _ = next(selectors(rule["expr"]))
        reported = " ".join(rule["annotations"].values())
        for label in re.findall(r"\$labels\.(\w+)", reported):
            if label != "instance":  # on every target
                assert any(label in labels for labels in samples()[name]), (rule["alert"], label)


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("who", ["exporter", "operator", "agent"])
def test_promtool_accepts_the_exposition(who: str) -> None:
    text = {
        "exporter": scrape,
        "operator": operator_scrape,
        "agent": lambda: generate_latest(AgentMetrics()).decode(),
    }[who]()
    done = promtool("check", "metrics", stdin=text)
    assert "error while linting" not in done.stderr, done.stderr
    # Names from dcgm-exporter are fixed: its metrics, and labels such as modelName.
    theirs = re.compile(r"DCGM_|.*label names should be written in 'snake_case'")
    assert [line for line in done.stderr.splitlines() if not theirs.match(line)] == []


@pytest.fixture
def helm_is_there() -> None:
    require_helm()


@pytest.mark.usefixtures("helm_is_there")
class TestRendered:
    def test_prometheus_operator_objects_are_opt_in(self) -> None:
        found = render()
        assert not {"ServiceMonitor", "PodMonitor", "PrometheusRule"} & set(found)
        assert not [name for name in found["ConfigMap"] if "dashboard" in name]

    def test_the_exporter_has_minimal_rights(self) -> None:
        pod = render()["DaemonSet"]["tessera-exporter"]["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod)
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounts, volumes = container["volumeMounts"], pod["volumes"]
        assert all(mount["readOnly"] is True for mount in mounts)
        # Separate directories: their parents contain the administration sockets of gpud and hcad,
        # and the sockets of HCA functions.
        folders = ["/run/tessera/telemetry", "/run/tessera/hca/telemetry"]
        assert [mount["mountPath"] for mount in mounts] == folders
        assert [volume["hostPath"]["path"] for volume in volumes] == folders

    def test_service_variables_do_not_override_the_exporter_s(self) -> None:
        """A Service named tessera-exporter sets TESSERA_EXPORTER_PORT in pods of its namespace."""
        pod = render()["DaemonSet"]["tessera-exporter"]["spec"]["template"]["spec"]
        assert pod["enableServiceLinks"] is False

    def test_gpud_serves_the_exporter_s_user(self) -> None:
        pod = render()["DaemonSet"]["tessera-exporter"]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == daemonset.EXPORTER_USER

    def test_nothing_is_rendered_when_the_exporter_is_off(self) -> None:
        found = render("exporter.enabled=false", "exporter.serviceMonitor.enabled=true")
        assert "tessera-exporter" not in found["DaemonSet"] | found["Service"]
        assert "ServiceMonitor" not in found

    def test_monitors_select_existing_targets(self) -> None:
        found = render(
            "exporter.serviceMonitor.enabled=true",
            "exporter.serviceMonitor.additionalLabels.release=prometheus",
            "operator.metrics.podMonitor.enabled=true",
            "devicePlugin.metrics.podMonitor.enabled=true",
        )
        monitor = found["ServiceMonitor"]["tessera-exporter"]
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        service = found["Service"]["tessera-exporter"]
        chosen = monitor["spec"]["selector"]["matchLabels"].items()
        assert chosen <= service["metadata"]["labels"].items()
        assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
        pods = found["DaemonSet"]["tessera-exporter"]["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= pods.items()
        operator = found["Deployment"]["tessera-operator"]["spec"]["template"]
        monitor = found["PodMonitor"]["tessera-operator"]["spec"]
        assert monitor["selector"]["matchLabels"].items() <= operator["metadata"]["labels"].items()
        ports = [one["name"] for one in operator["spec"]["containers"][0]["ports"]]
        assert monitor["podMetricsEndpoints"][0]["port"] in ports

    def test_rules_and_dashboards_are_rendered_unchanged(self) -> None:
        found = render("prometheusRule.enabled=true", "dashboards.enabled=true")
        rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
        assert found["PrometheusRule"]["tessera"]["spec"] == rules
        for path in DASHBOARDS:
            carried = found["ConfigMap"][f"tessera-dashboard-{path.stem}"]
            assert carried["metadata"]["labels"]["grafana_dashboard"] == "1"
            assert json.loads(carried["data"][path.name]) == json.loads(path.read_text())
