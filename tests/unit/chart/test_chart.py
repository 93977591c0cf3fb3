"""The chart as Helm renders it: names, values and privileges; the schema rejects mistakes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_operator import config
from gpu_operator.api import mig_parted, migparted_defaults
from gpu_operator.api.v1alpha1 import rdma
from gpu_operator.app import cleanup
from support.programs.helm_chart import CHART, Manifests, helm, render, require_helm, rules


@pytest.fixture(scope="module", autouse=True)
def helm_is_there() -> None:
    require_helm()


def render_refusal(*settings: str) -> str:
    named = ("image.repository=tessera", *settings)
    done = helm("template", "tessera", str(CHART), *[f"--set={s}" for s in named])
    assert done.returncode != 0, "this should have been refused"
    return done.stderr


def operator_config(
    found: Manifests, tmp_path: Path, name: str = "tessera-operator"
) -> config.Config:
    path = tmp_path / "operator.yaml"
    path.write_text(found["ConfigMap"][name]["data"]["operator.yaml"])
    return config.load({"TESSERA_OPERATOR_CONFIG": str(path)})[0]


def test_lint() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_the_operator_parses_the_chart_s_configuration(tmp_path: Path) -> None:
    loaded = operator_config(render(), tmp_path)
    assert loaded.node.image == "tessera:0.1.0"
    assert loaded.node.service_account == "tessera-node"
    assert loaded.node.gpud.allow_weak_sandbox is False
    assert loaded.node.rdma.enabled
    assert loaded.node.rdma.resources["limits"] == {"memory": "1Gi"}
    assert not operator_config(render("rdma.enabled=false"), tmp_path).node.rdma.enabled
    assert loaded.node.rdma.wire.enabled
    assert loaded.node.rdma.wire.resources["limits"] == {"memory": "96Mi"}
    off = operator_config(render("rdma.wire.enabled=false"), tmp_path)
    assert (off.node.rdma.enabled, off.node.rdma.wire.enabled) == (True, False)
    assert loaded.policy == {
        "strategy": "mixed",
        "resourcePrefix": "gpu.tessera.dev",
        "deviceListStrategy": "cdi",
        "nvidiaSmi": {"enabled": False},
        "deviceFiles": {"enabled": False},
        "pytorch": {"enabled": False},
    }
    assert loaded.owner_cluster_role in render()["ClusterRole"]


def test_without_an_image_the_error_explains_how_to_build_one() -> None:
    done = helm("template", "tessera", str(CHART))
    assert done.returncode != 0
    assert "deploy/images/build --push" in done.stderr
    assert "docs/install.md" in done.stderr


def test_every_value_is_rendered(tmp_path: Path) -> None:
    found = render(
        "image.repository=r/t",
        "image.tag=x",
        "image.pullPolicy=Always",
        "imagePullSecrets[0].name=s",
        "resourcePrefix=nvidia.com",
        "gpud.backend=interp",
        "gpud.nodeBudget=1Gi",
        "gpud.threads=3",
        "gpud.allowWeakSandbox=true",
        "devicePlugin.deviceListStrategy=mounts",
        "devicePlugin.kubeletRootDir=/data/kubelet",
        "devicePlugin.serviceAccount.create=false",
        "devicePlugin.serviceAccount.name=mine",
        "priorityClassName=high",
        "operator.replicas=2",
        "operator.leaderElection.leaseDurationSeconds=30",
        "operator.logLevel=DEBUG",
        "operator.nodeSelector.a=b",
        "daemonsets.rollingUpdate.maxUnavailable=25%",
        "nodeTaints.notReady=true",
        "nodeTaints.present=true",
        "nvidiaSmi.enabled=true",
        "deviceFiles.enabled=true",
        "pytorch.enabled=true",
    )
    loaded = operator_config(found, tmp_path)
    node = loaded.node
    assert (node.image, node.image_pull_policy) == ("r/t:x", "Always")
    assert node.image_pull_secrets == ({"name": "s"},)
    assert (node.gpud.backend, node.gpud.node_budget, node.gpud.threads) == ("interp", "1Gi", 3)
    assert node.gpud.allow_weak_sandbox is True
    assert node.device_plugin.kubelet_dir == "/data/kubelet"
    assert (node.service_account, node.priority_class_name) == ("mine", "high")
    assert node.max_unavailable == "25%"
    assert node.taints == config.TaintsConfig(not_ready=True, present=True)
    assert loaded.log_level == "DEBUG"
    election = config.LeaderElectionConfig(lease_duration_seconds=30)
    assert loaded.leader_election == election, "the other values are the operator's defaults"
    assert loaded.policy
    assert loaded.policy["resourcePrefix"] == "nvidia.com"
    assert loaded.policy["deviceListStrategy"] == "mounts"
    assert loaded.policy["nvidiaSmi"] == {"enabled": True}
    assert loaded.policy["deviceFiles"] == {"enabled": True}
    assert loaded.policy["pytorch"] == {"enabled": True}
    deployment = found["Deployment"]["tessera-operator"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert deployment["template"]["spec"]["containers"][0]["image"] == "r/t:x"
    assert "tessera-node" not in found["ServiceAccount"]
    assert found["ClusterRoleBinding"]["tessera-node"]["subjects"][0]["name"] == "mine"


def test_mig_configurations_come_from_the_chart_or_the_user(tmp_path: Path) -> None:
    found = render()
    default = "tessera-default-mig-parted-config"
    assert operator_config(found, tmp_path).mig_manager == config.MigManagerConfig()
    shipped = mig_parted.read_config_map(found["ConfigMap"][default])
    assert shipped is not None
    assert shipped == mig_parted.Configs(mig_parted.read(migparted_defaults.text()))
    made = "migManager.config.create=true,migManager.config.name=mine,migManager.onInUse=Evict"
    found = render(
        made, "migManager.config.default=all-disabled", r"migManager.config.data.config\.yaml=x"
    )
    chosen = operator_config(found, tmp_path).mig_manager
    assert (chosen.config_map, chosen.default) == ("mine", "all-disabled")
    assert chosen.on_in_use == "Evict"
    assert found["ConfigMap"]["mine"]["data"] == {"config.yaml": "x"}
    assert "migManager.config.data" in render_refusal(
        "migManager.config.create=true,migManager.config.name=x"
    )
    off = render("migManager.enabled=false")
    assert default not in off["ConfigMap"]
    assert not operator_config(off, tmp_path).mig_manager.enabled


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("gpud.bakend=jit", "bakend"),
        ("gpud.backend=fast", "backend"),
        ("operator.replica=2", "replica"),
        ("resourcePrefix=UPPER", "resourcePrefix"),
        ("migStrategy=double", "migStrategy"),
        ("gpud.nodeBudget=8GB", "nodeBudget"),
        ("gpud.nodeBudget=4", "nodeBudget"),
        ("gpud.nodeBudget=100Ti", "nodeBudget"),
        ("gpud.threads=0", "threads"),
        ("gpud.allowWeakSandbox=perhaps", "allowWeakSandbox"),
        ("crds.keep=maybe", "keep"),
        ("imagePullSecrets[0]=x", "imagePullSecrets"),
        ("uninstall.onInUse=Kill", "onInUse"),
        ("migManager.onInUse=Kill", "onInUse"),
        ("migManager.config.default=a b", "default"),
        ("devicePlugin.deviceListStrategy=envvar", "deviceListStrategy"),
        ("nvidiaSmi.enabled=perhaps", "nvidiaSmi"),
        ("deviceFiles.enabled=perhaps", "deviceFiles"),
        ("pytorch.enabled=perhaps", "pytorch"),
        ("runtimeClass.create=perhaps", "runtimeClass"),
        ("runtimeClass.handler=a/b", "handler"),
        ("anything=1", "anything"),
        ("nameOverride=Upper", "nameOverride"),
        ("daemonsets.rollingUpdate.maxUnavailable=0", "maxUnavailable"),
        ("daemonsets.rollingUpdate.maxUnavailable=200%", "maxUnavailable"),
        ("fullnameOverride=a_b", "fullnameOverride"),
        ("gpud.healthChecks.disabled=none", "/gpud/healthChecks/disabled"),
        ("sharing.timeSlicing.replicas=4", "/sharing/timeSlicing"),
        ("sharing.mps.resources[0].name=gpu,sharing.mps.resources[0].replicas=1", "replicas"),
        ("sharing.timeslicing.resources[0].name=gpu", "timeslicing"),
        (
            "sharing.mps.resources[0].name=gpu,sharing.mps.resources[0].replicas=2,"
            "sharing.timeSlicing.resources[0].name=gpu,sharing.timeSlicing.resources[0].replicas=2",
            "/sharing",
        ),
    ],
)
def test_errors_name_the_value(setting: str, word: str) -> None:
    assert word in render_refusal(setting)


@pytest.mark.parametrize("words", ["48", r"48\, 63", "all", "xids", ""])
def test_xids_may_be_a_number_or_a_list(words: str, tmp_path: Path) -> None:
    found = render(f"gpud.healthChecks.disabled={words}")
    checks = operator_config(found, tmp_path).node.gpud.health_checks
    assert checks.disabled == words.replace("\\", "")


@pytest.mark.parametrize(
    ("settings", "made"),
    [
        ((), False),
        (("resourcePrefix=nvidia.com",), True),
        (("resourcePrefix=nvidia.com", "runtimeClass.create=false"), False),
        (("runtimeClass.create=true",), True),
    ],
)
def test_the_runtime_class_is_created_with_nvidias_prefix_or_on_request(
    settings: tuple[str, ...], made: bool
) -> None:
    classes = render(*settings).get("RuntimeClass", {})
    assert list(classes) == (["nvidia"] if made else [])
    if made:
        assert classes["nvidia"]["handler"] == "runc"


def test_the_runtime_class_has_the_given_name_and_handler() -> None:
    found = render(
        "runtimeClass.create=true", "runtimeClass.name=gpu", "runtimeClass.handler=crun"
    )["RuntimeClass"]
    assert found["gpu"]["handler"] == "crun"


def test_null_removes_a_default_and_numbers_can_be_names(tmp_path: Path) -> None:
    """In Helm ``key: null`` removes even the default value."""
    found = render(
        "tolerations=null",
        "affinity=null",
        "podAnnotations=null",
        "imagePullSecrets=null",
        "priorityClassName=null",
        "image.pullPolicy=null",
        "gpud.resources=null",
        "devicePlugin.resources=null",
        "operator.tolerations=null",
    )
    node = operator_config(found, tmp_path).node
    assert (node.tolerations, node.affinity, node.priority_class_name) == ((), {}, "")
    assert (node.gpud.resources, node.image_pull_policy) == ({}, "IfNotPresent")

    done = helm("template", "2024", str(CHART), "--set-string=nameOverride=7,image.tag=1.10")
    for document in filter(None, yaml.safe_load_all(done.stdout)):
        labels = document["metadata"]["labels"]
        assert all(isinstance(value, str) for value in labels.values()), document["kind"]


def test_the_schema_describes_every_value_and_no_other() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(value: Any, node: dict[str, Any], path: str) -> None:
        # must be empty; test_values_schema covers this
        if "properties" not in node or path == "values.sharing":
            return
        assert node["additionalProperties"] is False, path
        assert set(value) == set(node["properties"]) - {"global"}, path
        for key, child in value.items():
            compare(child, node["properties"][key], f"{path}.{key}")

    compare(values, schema, "values")


def test_every_value_is_used_by_a_template_and_every_used_one_exists() -> None:
    templates = "\n".join(p.read_text() for p in (CHART / "templates").rglob("*.*"))
    used = set(re.findall(r"\.Values\.([A-Za-z.]+)", templates))

    def leaves(value: Any, path: str) -> set[str]:
        if isinstance(value, dict) and value and not path.endswith((".resources", ".data")):
            return {p for k, child in value.items() for p in leaves(child, f"{path}.{k}")}
        return {path.removeprefix(".")}

    assert leaves(yaml.safe_load((CHART / "values.yaml").read_text()), "") == used


def test_crds_match_the_files_and_can_be_kept() -> None:
    kept = render()["CustomResourceDefinition"]
    files = {p.stem: yaml.safe_load(p.read_text()) for p in (CHART / "files/crds").iterdir()}
    assert {d["spec"]["names"]["plural"]: d["spec"] for d in kept.values()} == {
        name: document["spec"] for name, document in files.items()
    }
    for document in kept.values():
        assert document["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for document in render("crds.keep=false")["CustomResourceDefinition"].values():
        assert "annotations" not in document["metadata"]
    assert "CustomResourceDefinition" not in render("crds.install=false")


def test_no_custom_resource_is_in_the_release() -> None:
    """Helm looks kinds up before it installs the CRDs: a new cluster would reject the release."""
    kinds = {d["spec"]["names"]["kind"] for d in render()["CustomResourceDefinition"].values()}
    assert not kinds & render().keys()


def pods(found: Manifests) -> dict[str, dict[str, Any]]:
    specs = {f"Pod/{n}": d["spec"] for n, d in found.get("Pod", {}).items()}
    for kind in ("Deployment", "Job"):
        for name, document in found.get(kind, {}).items():
            specs[f"{kind}/{name}"] = document["spec"]["template"]["spec"]
    return specs


def test_everything_but_the_node_pods_fits_pod_security_restricted() -> None:
    found = pods(render())
    jobs = {"Job/tessera-cleanup", "Job/tessera-takeover"}
    assert set(found) == {"Deployment/tessera-operator", *jobs, "Pod/tessera-check"}
    for name, spec in found.items():
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys(), name
        assert all("hostPath" not in v for v in spec.get("volumes", [])), name
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name


def test_linkd_has_two_capabilities_and_no_token() -> None:
    """linkd alone is on the host network; when it is off, none of its objects is left."""
    spec = render()["DaemonSet"]["tessera-links"]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostIPC"} & spec.keys()
    (linkd,) = spec["containers"]
    security = linkd["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "BPF"]}
    assert security["readOnlyRootFilesystem"] is True
    assert security["privileged"] is False
    assert security["allowPrivilegeEscalation"] is False
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes == {
        "links": {
            "name": "links",
            "hostPath": {"path": "/run/tessera/links", "type": "DirectoryOrCreate"},
        },
        "tmp": {"name": "tmp", "emptyDir": {}},
    }
    for off in ("rdma.enabled=false", "rdma.secondLayer.enabled=false"):
        assert "tessera-links" not in render(off)["DaemonSet"]


def test_an_update_ends_no_linkd_before_the_next_one_is_ready() -> None:
    links = render()["DaemonSet"]["tessera-links"]["spec"]
    assert links["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    (linkd,) = links["template"]["spec"]["containers"]
    ready_file = linkd["startupProbe"]["exec"]["command"][-1]
    assert f"--ready-file={ready_file}" in linkd["args"]


def test_the_node_agent_may_read_gpus_and_write_their_status_and_events() -> None:
    group = "gpu.tessera.dev"
    without_rdma = {
        *((group, "gpus", verb) for verb in ("list", "watch")),
        (group, "gpus/status", "patch"),
        *(("", "events", verb) for verb in ("create", "get", "patch")),
        ("", "nodes", "get"),
    }
    off = render("rdma.enabled=false")
    assert rules(off, "ClusterRole", "tessera-node") == without_rdma
    # By name only: it must not list the pods of other nodes.
    assert rules(render(), "ClusterRole", "tessera-node") == without_rdma | {("", "pods", "get")}
    bound: dict[str, set[str]] = {}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for d in render()[kind].values():
            for s in d["subjects"]:
                bound.setdefault(s["name"], set()).add(d["roleRef"]["name"])
    assert bound["tessera-node"] >= {"tessera-node", "tessera-node-rdma"}
    assert bound["tessera-node"] <= {"tessera-node", "tessera-node-rdma", "tessera-node-dra"}
    assert rules(render(), "ClusterRole", "tessera-node-rdma") == {
        ("rdma.tessera.dev", "rdmanodetables", "watch"),
        ("rdma.tessera.dev", "rdmanodetables/status", "patch"),
    }
    assert rules(render(), "Role", "tessera-node-rdma") == {
        ("coordination.k8s.io", "leases", verb) for verb in ("create", "patch")
    }


def test_the_operator_has_exactly_the_rights_of_its_client() -> None:
    cluster = rules(render("dra.enabled=false"), "ClusterRole", "tessera-operator")
    assert not any("*" in rule for rule in cluster)
    assert not any(resource == "secrets" for _, resource, _ in cluster)
    gpus, tables = ("gpu.tessera.dev", "gpus"), ("rdma.tessera.dev", "rdmanodetables")
    layouts = ("gpu.tessera.dev", "miglayouts")
    off = render("rdma.enabled=false", "migManager.enabled=false", "dra.enabled=false")
    without = rules(off, "ClusterRole", "tessera-operator")
    cluster -= {(*layouts, verb) for verb in ("create", "patch", "delete")}  # for mig.config
    assert {r for r in without if r[2] == "delete"} == {(*gpus, "delete")}
    assert {r for r in cluster if r[2] == "delete"} == {(*gpus, "delete"), (*tables, "delete")}
    assert {r[1] for r in without if r[2] == "create"} == {"gpus", "gpupolicies", "pods/eviction"}
    assert {r[1] for r in without if r[2] == "patch" and not r[0]} == {"nodes", "nodes/status"}
    assert ("", "pods", "list") not in without  # only in the operator's namespace
    added = {r for r in cluster - without if r[0] != "rdma.tessera.dev"}
    assert added == {
        *(
            ("", resource, verb)
            for resource in ("pods", "namespaces")
            for verb in ("list", "watch")
        ),
        *(("", "events", verb) for verb in ("create", "patch")),
    }
    assert rules(off, "Role", "tessera-operator-events") == {
        ("", "events", "create"),
        ("", "events", "patch"),
    }
    claims = rules(render("dra.enabled=true"), "ClusterRole", "tessera-operator") - cluster
    assert {r for r in claims if r[1] != "miglayouts"} == {
        ("resource.k8s.io", resource, verb)
        for resource in ("resourceclaims", "deviceclasses")
        for verb in ("list", "watch")
    }
    assert off["Role"]["tessera-operator-events"]["metadata"]["namespace"] == "default"


def test_a_node_agent_may_write_only_its_own_node() -> None:
    found = render()
    (rule,) = found["ValidatingAdmissionPolicy"]["tessera-node"]["spec"]["validations"]
    assert "object.spec.nodeName == variables.nodeName" in rule["expression"]
    binding = found["ValidatingAdmissionPolicyBinding"]["tessera-node"]["spec"]
    assert binding == {"policyName": "tessera-node", "validationActions": ["Deny"]}
    condition = found["ValidatingAdmissionPolicy"]["tessera-node"]["spec"]["matchConditions"][0]
    assert "system:serviceaccount:ns:tessera-node" in condition["expression"]


def test_a_node_agent_acknowledges_only_for_its_own_node() -> None:
    found = render()
    spec = found["ValidatingAdmissionPolicy"]["tessera-node-rdma"]["spec"]
    (rule,) = spec["validations"]
    assert "object.metadata.name == variables.ownName" in rule["expression"]
    resources = {r for one in spec["matchConstraints"]["resourceRules"] for r in one["resources"]}
    assert resources == {"rdmanodetables", "rdmanodetables/status", "leases"}
    prefix = next(v["expression"] for v in spec["variables"] if v["name"] == "ownName")
    assert f'"{rdma.LEASE_PREFIX}" + variables.nodeName' in prefix


def test_namespace_users_get_rights_on_policies_but_not_on_networks() -> None:
    found = render()
    edit, view = (found["ClusterRole"][f"tessera-rdma-{name}"] for name in ("edit", "view"))
    for role, verb in ((edit, "create"), (view, "list")):
        assert {r for one in role["rules"] for r in one["resources"]} == {"rdmanetworkpolicies"}
        assert verb in role["rules"][0]["verbs"]
    label = "rbac.authorization.k8s.io/aggregate-to-{}"
    assert label.format("view") not in edit["metadata"]["labels"]
    for name in ("view", "edit", "admin"):
        assert view["metadata"]["labels"][label.format(name)] == "true"


def test_every_service_account_is_created_by_the_chart() -> None:
    found = render()
    for name, spec in pods(found).items():
        assert spec["serviceAccountName"] in found["ServiceAccount"], name


def test_the_cleanup_hook_can_be_turned_off() -> None:
    found = render("uninstall.onInUse=Wait", "uninstall.timeoutSeconds=20")
    job = found["Job"]["tessera-cleanup"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    assert job["spec"]["activeDeadlineSeconds"] == 80
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--on-in-use=Wait", "--timeout=20"]
    assert ("", "pods/eviction", "create") not in rules(found, "ClusterRole", "tessera-cleanup")
    assert ("", "pods/eviction", "create") in rules(render(), "ClusterRole", "tessera-cleanup")
    assert "tessera-cleanup" not in render("uninstall.enabled=false")["Job"]
    patient = render("uninstall.retireResources=true", "uninstall.timeoutSeconds=20")
    job = patient["Job"]["tessera-cleanup"]["spec"]
    assert job["activeDeadlineSeconds"] == 20 + 870
    waits_s = 20 + cleanup._RETIRE_TIMEOUT_S + cleanup._RETIRED_FOR_S
    assert job["activeDeadlineSeconds"] > waits_s
    assert "--retire-resources" in job["template"]["spec"]["containers"][0]["args"]


def test_hook_jobs_do_not_stay_forever() -> None:
    """Helm deletes Jobs that succeed. It leaves those that fail, or all if its process is ended."""
    jobs = render()["Job"]
    assert len(jobs) == 2
    for job in jobs.values():
        policy = job["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
        assert {"before-hook-creation", "hook-succeeded"} <= set(policy)
        assert job["spec"]["ttlSecondsAfterFinished"] > job["spec"]["activeDeadlineSeconds"]


def test_names_follow_the_release() -> None:
    found = render("fullnameOverride=gpus")
    common = ("CustomResourceDefinition", "DeviceClass")  # the names that manifests use
    names = {n for kind in found for n in found[kind] if kind not in common}
    assert all(name.startswith("gpus") for name in names), names


def test_a_changed_configuration_restarts_the_operator() -> None:
    def checksum(*settings: str) -> str:
        template = render(*settings)["Deployment"]["tessera-operator"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum() != checksum("gpud.threads=2")
    assert checksum() == checksum("uninstall.timeoutSeconds=20")
