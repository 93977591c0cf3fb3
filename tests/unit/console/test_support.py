"""Doctor and support bundle of a cluster: states, remedies, and nothing that is secret."""

import asyncio
import contextlib
import copy
import datetime
import io
import json
import random
import re
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.kubectl import support_commands
from console.support import bundle, checks, entry, events, installation
from diagnosis import archive
from diagnosis.findings import FAIL, OK, WARN, Finding
from gpu_operator import errors

SPACE = "tessera-system"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl"
POOL = "gpu.tessera.dev/pool"
OPERATOR_LABELS = {
    "app.kubernetes.io/component": "operator",
    "app.kubernetes.io/instance": "tessera",
    "app.kubernetes.io/name": "tessera",
    "helm.sh/chart": "tessera-0.1.0",
}
SECRETS = {
    "env": "hunter2-in-a-variable",
    "annotation": "hunter2-in-an-annotation",
    "secret": "hunter2-in-a-secret",
    "config": "hunter2-in-a-configmap",
    "bearer": "hunter2.of.a.bearer",
    "jwt": TOKEN,
    "url": "hunter2:inaurl",
    "key": "MIIhunter2",
    "cookie": "hunter2cookie",
    "base64": "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjI",
}
FOREIGN = ("acme-training", "payments", "trainer-of-acme", "ledger-7f9c")


class Logs:
    """Logs of containers with secrets and foreign names."""

    async def read(
        self, namespace: str, pod: str, container: str, *, lines: int, previous: bool = False
    ) -> str:
        if previous:
            raise errors.NotFound("previous terminated container not found")
        assert lines > 0
        return (
            f"2026-11-27T00:00:00Z ready {pod}\n"
            f"Authorization: Bearer {SECRETS['bearer']}\n"
            f"token {SECRETS['jwt']} of the account\n"
            f"GET https://{SECRETS['url']}@proxy.example/path\n"
            f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n-----END PRIVATE KEY-----\n"
            f"http://x.localhost:8090/?token={SECRETS['cookie']}\n"
            f"DB_PASSWORD={SECRETS['env']} api_key: {SECRETS['secret']}\n"
            f"raw {SECRETS['base64']}\n"
            f"allocated MIG to pod acme-training/trainer-of-acme in payments, pod ledger-7f9c\n"
            f"image sha256:{'ab12' * 16} uuid GPU-2f3c8b1e-1111-2222-3333-444455556666\n"
        )


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "labels": labels,
            "annotations": {"kubectl.kubernetes.io/last-applied": SECRETS["annotation"]},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "agent",
                    "image": "r.example/tessera:1",
                    "env": [{"name": "TESSERA_X", "value": SECRETS["env"]}],
                    "args": ["--password", SECRETS["env"]],
                    "resources": {"requests": {"memory": "4Gi"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "agent", "ready": True, "restartCount": 0}],
        },
    }


@pytest.fixture
def cluster() -> SyntheticCluster:
    """Return a healthy installation whose objects contain secrets and foreign names."""
    made = SyntheticCluster()
    synthetic.pool_of(made, "h100-80gb")
    synthetic.add_node(made, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    node = made.objects["Node"]["n1"]
    node["metadata"].setdefault("labels", {})[POOL] = "h100"
    node["metadata"]["annotations"] = {"a": SECRETS["annotation"]}
    node.setdefault("status", {})["nodeInfo"] = {
        "kubeletVersion": "v1.36.1",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kernelVersion": "6.1.0",
        "machineID": SECRETS["secret"],
    }
    node["status"]["allocatable"] = {"memory": "64Gi"}
    for gpu in made.objects["GPU"].values():
        gpu["status"]["health"] = "Healthy"
        for number, one in enumerate(gpu["status"]["slices"]):
            for holder in one.get("holders") or ():
                holder["namespace"] = FOREIGN[number % 2]
                holder["name"] = FOREIGN[2 + number % 2]
        gpu["status"]["conditions"] = [
            {
                "type": "Ready",
                "status": "True",
                "message": f"held by acme-training/trainer-of-acme, {SECRETS['jwt']}",
            }
        ]
    for name in (SPACE, "default", "kube-system", FOREIGN[0], FOREIGN[1]):
        made.put("Namespace", {"metadata": {"name": name}})
    operator = {
        "metadata": {"name": "tessera-operator", "namespace": SPACE, "labels": OPERATOR_LABELS},
        "spec": {"template": {"spec": pod("x")["spec"]}},
        "status": {"replicas": 1, "availableReplicas": 1},
    }
    made.put("Deployment", operator)
    agents = {
        "metadata": {"name": "tessera-node-h100", "namespace": SPACE, "labels": {POOL: "h100"}},
        "spec": {"template": {"spec": pod("x")["spec"]}},
        "status": {"numberReady": 1, "desiredNumberScheduled": 1},
    }
    made.put("DaemonSet", agents)
    made.put("Pod", pod("tessera-operator-1", **OPERATOR_LABELS))
    made.put("Pod", pod("tessera-node-h100-a", **{POOL: "h100"}))
    made.put("Pod", pod("users-own-pod-in-our-namespace"))
    made.put("Secret", {"metadata": {"name": "s"}, "data": {"k": SECRETS["secret"]}})
    made.put("ConfigMap", {"metadata": {"name": "c"}, "data": {"k": SECRETS["config"]}})
    return made


def check(cluster: SyntheticCluster, namespace: str = "") -> dict[str, Finding]:
    found = asyncio.run(installation.read(cluster, namespace))
    return {one.check: one for one in checks.check_all(found)}


def collect(cluster: SyntheticCluster, namespace: str = "") -> dict[str, str]:
    async def run() -> dict[str, str]:
        found = await installation.read(cluster, namespace)
        await installation.read_rdma(cluster, found, events.SELECTIONS)
        return dict(await bundle.collect(found, Logs()))

    return asyncio.run(run())


def test_a_healthy_installation_has_no_failure_and_no_remedy(cluster: SyntheticCluster) -> None:
    found = check(cluster)
    assert {one.check: one for one in found.values() if one.state != OK} == {}
    assert not any(one.remedy for one in found.values())
    assert found["operator"].found == "tessera-system/tessera-operator: 1 of 1 replicas available"


def change(cluster: SyntheticCluster, kind: str, key: str, *path: Any) -> None:
    document = copy.deepcopy(cluster.objects[kind][key])
    *names, last, value = path
    target = document
    for name in names:
        target = target.setdefault(name, {}) if isinstance(name, str) else target[name]
    target[last] = value
    cluster.objects[kind][key] = document


@pytest.mark.parametrize(
    ("kind", "key", "path", "name", "state", "remedy"),
    [
        ("Node", "n1", ("status", "nodeInfo", "kubeletVersion", "v1.29.3"), "kubelets", FAIL, "1.30"),
        (
            *("Node", "n1", ("status", "nodeInfo", "containerRuntimeVersion", "containerd://1.7.2")),
            *("runtimes", WARN, "enable_cdi"),
        ),
        ("Node", "n1", ("status", "nodeInfo", "kernelVersion", "5.4.0"), "kernels", WARN, "allowWeak"),
        ("Node", "n1", ("status", "allocatable", "memory", "5Gi"), "budget", WARN, "nodeBudget"),
        (
            *("Namespace", SPACE, ("metadata", "labels", {"pod-security.kubernetes.io/enforce": "baseline"})),
            *("Pod Security", FAIL, "kubectl label namespace tessera-system"),
        ),
        (
            *("Deployment", f"{SPACE}/tessera-operator", ("status", "availableReplicas", 0)),
            *("operator", FAIL, "describe"),
        ),
        (
            *("Deployment", f"{SPACE}/tessera-operator"),
            ("metadata", "labels", "helm.sh/chart", "tessera-9.9.9"),
            *("version", WARN, "tessera==9.9.9"),
        ),
        (
            *("DaemonSet", f"{SPACE}/tessera-node-h100", ("status", "numberReady", 0)),
            *("node pods", FAIL, "get pods"),
        ),
        (
            *("Pod", f"{SPACE}/tessera-node-h100-a"),
            ("status", "containerStatuses", 0, "restartCount", 7),
            *("restarts", WARN, "OOMKilled"),
        ),
        ("GPU", "n1-gpu-0", ("status", "health", "Unhealthy: Xid 79"), "GPUs", WARN, "faults.md"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_remedy(
    cluster: SyntheticCluster,
    kind: str,
    key: str,
    path: tuple[Any, ...],
    name: str,
    state: str,
    remedy: str,
) -> None:
    change(cluster, kind, key, *path)
    found = check(cluster)
    assert found[name].state == state
    assert remedy in found[name].remedy
    assert [one.check for one in found.values() if one.state != OK] == [name]


@pytest.mark.parametrize(("minutes", "exit_code", "state"), [(2, 1, WARN), (70, 1, OK), (2, 0, OK)])
def test_a_recent_failure_of_a_container_is_named(
    cluster: SyntheticCluster, minutes: int, exit_code: int, state: str
) -> None:
    """Even the first one: an operator that has just died did so for a reason."""
    ended = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes, seconds=5)
    last = {"exitCode": exit_code, "reason": "Error", "finishedAt": f"{ended:%Y-%m-%dT%H:%M:%SZ}"}
    own = cluster.objects["Pod"][f"{SPACE}/tessera-operator-1"]["status"]["containerStatuses"][0]
    own |= {"restartCount": 1, "lastState": {"terminated": last}}
    found = check(cluster)["restarts"]
    assert found.state == state
    recent = f"tessera-operator-1/agent 1 (Error, {minutes} min ago)"
    assert found.found == (recent if state == WARN else "1 in 2 pods, no failure in the last hour")


def test_a_rollback_is_a_failure_with_its_gpu(cluster: SyntheticCluster) -> None:
    message = "n1-gpu-1: rolled back after 600 s: held by pod a/b"
    degraded = {"type": "Degraded", "status": "True", "reason": "DeadlineExceeded"}
    ready = {"type": "Ready", "status": "False", "reason": "DeadlineExceeded"}
    conditions = [ready, degraded | {"message": message}]
    layout = {"metadata": {"name": "mixed"}, "spec": {}, "status": {"conditions": conditions}}
    cluster.put("MIGLayout", layout)
    found = check(cluster)["pools"]
    assert (found.state, found.found) == (FAIL, f"MIGLayout mixed: DeadlineExceeded: {message}")


def test_an_operator_that_is_not_found_is_no_success(cluster: SyntheticCluster) -> None:
    found = check(cluster, "ml")["operator"]
    assert found.state == FAIL
    assert found.found == f"namespace ml has no operator of Tessera; {SPACE} has one"
    assert "all namespaces" in found.remedy
    problems = collect(cluster, "ml")["cluster/errors.txt"]
    assert "no pods, workloads and logs: namespace ml has no operator" in problems
    del cluster.objects["Deployment"]
    assert check(cluster)["operator"].state == WARN


def test_the_readme_of_a_bundle_names_its_files(cluster: SyntheticCluster) -> None:
    for path in collect(cluster):
        name = path.removeprefix("cluster/")
        assert name.startswith("logs/") or name in support_commands.README, name


def test_addresses_of_foreign_pods_have_pseudonyms(
    cluster: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object, **__: object) -> str:
        return (
            "12:03:04 denied 10.244.2.9 to 10.244.1.1, gid ::ffff:10.244.2.9,"
            " 0000:0000:0000:0000:0000:ffff:0af4:0209 fd00::7 peer:fd00::7 fd00::7: ::ffff:10.244.2.9: on 127.0.0.1 version 1.2.3"
        )

    monkeypatch.setattr(Logs, "read", read)
    status = cluster.objects["Pod"][f"{SPACE}/tessera-operator-1"]["status"]
    status["podIPs"] = [{"ip": "10.244.1.1"}]
    files = collect(cluster)
    log = files["cluster/logs/tessera-operator-1/agent.log"]
    match = re.fullmatch(
        r"12:03:04 denied (address-\d+) to 10\.244\.1\.1, gid (\S+), (\S+) (address-\d+) peer:(\S+) (\S+): (\S+):"
        r" on 127\.0\.0\.1 version 1\.2\.3",
        log,
    )
    assert match, log
    assert match[1] == match[2] == match[3] == match[7]
    assert match[1] != match[4] == match[5] == match[6]
    assert "cluster/gpupolicies.json" in files


def test_a_bundle_of_a_namespace_without_an_operator_is_refused(
    cluster: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def connect(*_: object) -> AsyncIterator[tuple[SyntheticCluster, Logs]]:
        yield cluster, Logs()

    monkeypatch.setattr(entry, "connect", connect)
    with pytest.raises(errors.ConfigError, match=f"ml has no operator of Tessera; {SPACE}"):
        asyncio.run(entry.collect_cluster(None, None, "ml"))
    files = asyncio.run(entry.collect_cluster(None, None, SPACE))
    assert files["cluster/errors.txt"] == "none\n"


def test_a_gpu_that_is_not_healthy_is_named_with_cause_and_time(cluster: SyntheticCluster) -> None:
    gpu = cluster.objects["GPU"]["n1-gpu-1"]
    gpu["status"] |= {"health": "Unhealthy"}
    gpu["status"]["slices"][0]["health"] = "Unhealthy: Xid 79"
    gpu["status"]["conditions"].append(
        {
            "type": "Degraded",
            "status": "True",
            "reason": "Unhealthy",
            "lastTransitionTime": "2026-11-27T11:00:00Z",
        }
    )
    found = check(cluster)["GPUs"]
    assert found.found == "n1-gpu-1 Unhealthy: Xid 79 since 2026-11-27T11:00:00Z"


def test_kinds_that_cannot_be_read_are_named(cluster: SyntheticCluster) -> None:
    cluster.refused["MIGLayout"] = errors.NotFound("list MIGLayout: 404")
    cluster.refused["DaemonSet"] = errors.Refused("list DaemonSet: forbidden")
    found = check(cluster)
    assert found["CRDs"].state == FAIL
    assert "MIGLayout" in found["CRDs"].found
    assert "DaemonSet" in found["rights"].found
    for kind in ("Node", "Deployment"):
        cluster.refused[kind] = errors.Unreachable(f"list {kind}: refused")
    assert list(check(cluster)) == ["access"]


def test_a_bundle_has_no_secret_and_no_foreign_name(
    cluster: SyntheticCluster, tmp_path: Path
) -> None:
    files = collect(cluster)
    path = tmp_path / "bundle.tar.gz"
    archive.write(path, "bundle", files)
    with tarfile.open(path) as packed:
        texts = {}
        for name in packed.getnames():
            content = packed.extractfile(name)
            assert content is not None
            texts[name] = content.read().decode()
    whole = "\n".join([*texts, *texts.values()])
    for what, secret in SECRETS.items():
        assert secret not in whole, what
    for name in FOREIGN:
        assert name not in whole
    assert "users-own-pod-in-our-namespace" not in whole
    assert path.stat().st_mode & 0o777 == 0o600
    # and what an issue needs is there
    assert "ready tessera-node-h100-a" in whole
    assert "GPU-2f3c8b1e-1111-2222-3333-444455556666" in whole
    assert f"sha256:{'ab12' * 16}" in whole
    assert '"TESSERA_X"' in whole
    gpus = json.loads(files["cluster/gpus.json"])
    assert len(gpus) == 2
    assert gpus[0]["status"]["slices"][0]["holders"] == "1 not shown"
    assert json.loads(files["cluster/nodes.json"])[0]["nodeInfo"]["kernelVersion"] == "6.1.0"


def test_a_deployment_of_a_tenant_gets_no_pod_of_theirs_into_a_bundle(
    cluster: SyntheticCluster,
) -> None:
    cluster.put(
        "Deployment",
        {
            "metadata": {
                "name": "shop",
                "namespace": "acme-training",
                "labels": {**OPERATOR_LABELS, "app.kubernetes.io/instance": "shop"},
            },
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "shop-image"}]}}},
        },
    )
    theirs = pod("shop-1", **{**OPERATOR_LABELS, "app.kubernetes.io/instance": "shop"})
    theirs["metadata"]["namespace"] = "acme-training"
    cluster.put("Pod", theirs)
    files = collect(cluster)
    whole = "\n".join([*files, *files.values()])
    assert "shop-1" not in whole
    assert "shop-image" not in whole
    assert not any("/logs/" in name for name in files)
    assert "--namespace NAME" in files["cluster/errors.txt"]
    assert json.loads(files["cluster/pods.json"]) == []
    found = check(cluster)
    assert found["operator"].state == FAIL
    assert "--namespace NAME" in found["operator"].remedy
    files = collect(cluster, SPACE)
    assert "cluster/logs/tessera-operator-1/agent.log" in files
    assert not any("shop-1" in name for name in files)


def test_claims_of_a_gpu_are_not_named(cluster: SyntheticCluster) -> None:
    change(
        cluster,
        *("GPU", "n1-gpu-0", "status", "claims"),
        [
            {
                "claim": {"namespace": "acme-training", "name": "merger-with-globex", "uid": "u-7"},
                "holders": [{"namespace": "acme-training", "name": "trainer-of-acme"}],
            }
        ],
    )
    change(
        cluster,
        *("GPU", "n1-gpu-1", "status", "conditions"),
        [{"type": "Ready", "message": "claim merger-with-globex waits"}],
    )
    gpus = collect(cluster)["cluster/gpus.json"]
    assert "merger-with-globex" not in gpus
    assert "u-7" not in gpus
    assert json.loads(gpus)[0]["status"]["claims"] == [
        {"claim": "not shown", "holders": "1 not shown"}
    ]


def test_of_a_long_log_the_end_is_collected(
    cluster: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_CHARACTERS", 200)
    log = collect(cluster)["cluster/logs/tessera-operator-1/agent.log"]
    assert log.startswith("[the beginning was removed]\nimage sha256:")
    assert len(log) < 240


def test_a_bundle_is_never_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    with pytest.raises(FileExistsError):
        archive.write(tmp_path / "there", "bundle", {"a": "b"})


def test_of_a_long_file_the_end_is_kept(tmp_path: Path) -> None:
    archive.write(tmp_path / "b", "x", {"log": "old" + "y" * archive.MAX_FILE_BYTES + "new"})
    with tarfile.open(tmp_path / "b") as packed:
        content = packed.extractfile("x/log")
        assert content is not None
        text = io.TextIOWrapper(content).read()
    assert text.endswith("new")
    assert "old" not in text
    assert len(text) == archive.MAX_FILE_BYTES
