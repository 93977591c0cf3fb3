"""``tessera rdma``: answers, exit statuses, sources of manifests, completion."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from support.worlds.rdma_world import Dict, namespace, network, nine_pods, policy
from vgpu_sim.cli.main import main

OURS = "rdma.tessera.dev/v1alpha1"
NO_WRITES = policy(
    {
        "podSelector": {"matchLabels": {"app": "web"}},
        "ingress": [{"from": [{"namespaceSelector": {}}], "verbs": ["Read", "Send"]}],
    },
    "no-writes",
)


def add_version(document: Dict) -> Dict:
    ours = document["kind"].startswith("RDMA")
    return {"apiVersion": OURS if ours else "v1", **document}


def documents(*more: Dict) -> list[Dict]:
    spaces = [namespace(name) for name in "abc"]
    return [add_version(one) for one in [*nine_pods(), *spaces, *more]]


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["rdma", *arguments], prog_name="tessera", input=text)


def explain(source: str, destination: str, verb: str, *more: str, world: list[Dict]) -> Result:
    arguments = ("explain", "--from", source, "--to", destination, "--verb", verb, "-f", "-")
    return run(*arguments, *more, text=yaml.safe_dump_all(world))


def test_a_denied_write_names_policy_rule_side_and_what_the_program_sees() -> None:
    result = explain("b/y", "a/x", "write", world=documents(NO_WRITES))
    assert result.exit_code == 1
    assert result.output == (
        "DENIED: Write from b/y to a/x\n"
        "  egress of b/y: allowed, no policy isolates it\n"
        "  ingress of a/x: denied, isolated by a/no-writes\n"
        "    a/no-writes ingress[0] matches, for Send, Read only\n"
        "  partition 0xffff (default partition, full member): shared (from: full member of the"
        " default partition; to: full member of the default partition)\n"
        "  so: the peer answers with a remote access error: IBV_WC_REM_ACCESS_ERR\n"
    )


def test_an_allowed_read_names_its_rule() -> None:
    result = explain("b/y", "a/x", "READ", world=documents(NO_WRITES))
    assert result.exit_code == 0
    assert "ALLOWED: Read from b/y to a/x" in result.output
    assert "ingress of a/x: allowed by a/no-writes ingress[0]" in result.output


def test_a_peer_without_a_rule_gets_no_answer() -> None:
    closed = policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}, "closed")
    result = explain("a/x", "b/y", "write-imm", world=documents(closed))
    assert result.exit_code == 1
    assert "egress of a/x: denied, isolated by a/closed" in result.output
    assert "no rule matches this peer and flow" in result.output
    assert "EACCES" in result.output
    assert "IBV_WC_RETRY_EXC_ERR" in result.output


def test_partitions_are_named_and_a_shared_key_is_chosen() -> None:
    lab = network(
        [
            {
                "name": "x-only",
                "pkey": 4,
                "members": [{"podSelector": {"matchLabels": {"pod": "x"}}}],
            },
            {
                "name": "all",
                "pkey": 5,
                "members": [{"podSelector": {}, "membership": "Limited"}],
            },
            {
                "name": "z-full",
                "pkey": 6,
                "members": [{"podSelector": {"matchLabels": {"pod": "z"}}}],
            },
        ]
    )
    result = explain("a/x", "b/x", "read", world=documents(lab))
    assert result.exit_code == 0
    assert (
        "partition 0x8004 (full member): shared (from: full member of lab/x-only" in result.output
    )
    result = explain("a/x", "b/y", "read", "--pkey", "0x0005", world=documents(lab))
    assert result.exit_code == 1
    assert (
        "not shared (from: limited member of lab/all; to: limited member of lab/all)"
        in result.output
    )
    result = explain("a/x", "b/y", "read", "--pkey", "0x8006", world=documents(lab))
    assert "not shared (from: no member; to: no member)" in result.output


def test_audits_are_reported() -> None:
    audit = policy({"podSelector": {}, "enforcement": "Audit"}, "watch")
    result = explain("b/y", "a/x", "read", world=documents(audit))
    assert result.exit_code == 0
    assert "only audited by a/watch" in result.output
    assert "would be denied if policies that audit were enforced" in result.output


def test_json_has_the_same_content() -> None:
    result = explain("b/y", "a/x", "write", "-o", "json", world=documents(NO_WRITES))
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["allowed"] is False
    assert answer["ingress"]["isolatedBy"] == ["a/no-writes"]
    assert answer["ingress"]["rules"] == [
        {"rule": "a/no-writes ingress[0]", "verbs": ["Send", "Read"]}
    ]
    assert answer["partition"] == {
        "pkey": "0xffff",
        "shared": True,
        "names": "from: full member of the default partition; to: full member of the default partition",
    }


def test_ports_and_unknown_peers() -> None:
    spec = {"podSelector": {}, "ingress": [{"ports": [{"serviceID": 18515}]}]}
    world = documents(policy(spec))
    assert explain("b/y", "a/x", "cm", world=world).exit_code == 1
    assert explain("b/y", "a/x", "cm", "--service", "18515", world=world).exit_code == 0
    result = explain("192.0.2.1", "x", "cm", "--service", "18515", "-n", "a", world=world)
    assert result.exit_code == 0
    assert "192.0.2.1: allowed, outside of the cluster" in result.output


@pytest.mark.parametrize(
    ("source", "change", "said"),
    [
        ("a/none", {}, "pod a/none does not exist"),
        ("x", {}, "pod default/x does not exist"),
        ("a/x", {"spec": {"hostNetwork": True}}, "on its node's network"),
        ("a/x", {"spec": {"containers": [{}]}}, "holds no HCA"),
        ("a/x", {"status": {}}, "has no address yet"),
        ("fd00::1", {}, "no addresses of the same IP family"),
        ("10.0.0", {}, "10.0.0 is neither namespace/pod nor an IP address"),
    ],
)
def test_an_impossible_question_is_refused_in_one_line(
    source: str, change: Dict, said: str
) -> None:
    world = documents()
    world[0].update(change)
    result = explain(source, "b/y", "read", world=world)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "(read: -; `kubectl get pods -A -o yaml`" in result.stderr, "where pods were looked for"
    assert result.stderr.count("\n") == 1


def test_two_pods_with_one_address_are_denied_and_reported() -> None:
    world = documents()
    world[1]["status"] = world[0]["status"]
    result = explain("a/x", "b/y", "read", world=world)
    assert result.exit_code == 1
    assert "two pods claim this address" in result.output


def test_manifests_of_folders_lists_and_several_files(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(
        json.dumps(
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "items": [
                    {"apiVersion": "v1", **{k: v for k, v in one.items() if k != "kind"}}
                    for one in nine_pods()
                ],
            }
        )
    )
    (tmp_path / "spaces.yml").write_text(
        yaml.safe_dump(
            {
                "kind": "List",
                "apiVersion": "v1",
                "items": [add_version(namespace("a")), add_version(namespace("b"))],
            }
        )
    )
    (tmp_path / "notes.txt").write_text("{")
    other = tmp_path / "other"
    other.mkdir()
    (other / "policy.yaml").write_text(
        "# the time is no string in YAML, and text for Kubernetes\n---\n"
        + yaml.safe_dump(add_version(NO_WRITES)).replace(
            "metadata:", "metadata:\n  creationTimestamp: 2026-01-01T00:00:00Z", 1
        )
        + "---\n---\nkind: ConfigMap\napiVersion: v1\n"
    )
    arguments = ("explain", "--from", "b/y", "--to", "a/x", "--verb", "write")
    result = run(*arguments, "-f", str(tmp_path), "-f", str(other))
    assert result.exit_code == 1
    assert "isolated by a/no-writes" in result.stdout
    assert "warning: no namespace c is given" in result.stderr
    assert run(*arguments, "-f", str(tmp_path)).exit_code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "line 2"),
        ("5", "not a Kubernetes object"),
        (
            "kind: List\nitems: [{kind: List, items: []}]",
            "a List object contains another List object",
        ),
        ("!!python/object/apply:os.system [id]", "line 1"),
        ("[" * 5000, "-:"),
        (
            "apiVersion: v1\nkind: RDMANetworkPolicy\nmetadata: {name: p}\nspec: {}",
            "write rdma.tessera.dev/v1alpha1",
        ),
        (
            f"apiVersion: {OURS}\nkind: RDMANetworkPolicy\nmetadata: {{name: p}}\nspec: {{}}",
            "spec.podSelector: missing",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: 5", "metadata: 5 is not an object"),
    ],
)
def test_an_invalid_manifest_is_refused_in_one_line(text: str, said: str) -> None:
    result = run("explain", "--from", "a/x", "--to", "b/y", "--verb", "read", "-f", "-", text=text)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def kubectl(folder: Path, answer: str) -> str:
    """Return a kubectl that answers from the folder, and records its arguments."""
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/arguments\n{answer}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def kubectl_arguments(program: str, *more: str) -> Result:
    wanted = ("--from", "b/y", "--to", "a/x", "--verb", "write", "--kubectl", program)
    return run("explain", *wanted, *more)


def cluster_of(folder: Path, found: list[Dict]) -> str:
    """Return a kubectl whose cluster has these objects."""
    kinds = {
        "Pod": "pods",
        "Namespace": "namespaces",
        "RDMANetwork": "networks",
        "RDMANetworkPolicy": "policies",
    }
    everything: dict[str, list[Any]] = {name: [] for name in kinds.values()}
    for document in found:
        everything[kinds[document["kind"]]].append(document)
    for name, items in everything.items():
        (folder / name).write_text(json.dumps({"kind": "List", "items": items}))
    return kubectl(
        folder,
        f'case "$*" in *rdmanetworkpolicies*) cat {folder}/policies;; *rdmanetworks*) cat'
        f" {folder}/networks;; *namespaces\\ --all*) cat {folder}/namespaces;;"
        f" *) cat {folder}/pods;; esac",
    )


def test_the_users_kubectl_queries_the_cluster(tmp_path: Path) -> None:
    program = cluster_of(tmp_path, documents(NO_WRITES))
    result = kubectl_arguments(program, "--context", "lab")
    assert result.exit_code == 1, result.output
    assert "isolated by a/no-writes" in result.stdout
    lines = (tmp_path / "arguments").read_text().splitlines()
    assert lines[0] == "--context=lab get pods --all-namespaces -o json"
    assert [line.split()[2] for line in lines] == [
        "pods",
        "namespaces",
        "rdmanetworks.rdma.tessera.dev",
        "rdmanetworkpolicies.rdma.tessera.dev",
    ]


def _report(status: str, generation: int) -> Dict:
    """Return the policy with generation 2, and a condition Programmed of some generation."""
    condition = {"type": "Programmed", "status": status, "reason": "R", "message": "M"}
    said = {"conditions": [condition | {"observedGeneration": generation}], "nodesReady": "1/2"}
    return {
        **NO_WRITES,
        "metadata": {**NO_WRITES["metadata"], "generation": 2},
        "status": said,
    }


@pytest.mark.parametrize(
    ("reported", "first", "second"),
    [
        (_report("True", 2), "DENIED", "enforced: policy a/no-writes: Programmed=True R: M"),
        (
            _report("False", 2),
            "WILL BE DENIED ONCE PROGRAMMED",
            "not enforced everywhere yet: policy a/no-writes: Programmed=False R: M",
        ),
        (
            _report("True", 1),
            "WILL BE DENIED ONCE PROGRAMMED",
            "not enforced everywhere yet: policy a/no-writes: Programmed=Unknown: the operator has"
            " not reported on this version of the policy yet",
        ),
        (
            NO_WRITES,
            "WILL BE DENIED ONCE PROGRAMMED",
            "not enforced everywhere yet: policy a/no-writes: Programmed=Unknown: the operator has"
            " not reported on this version of the policy yet",
        ),
    ],
)
def test_a_verdict_about_a_cluster_states_whether_nodes_enforce_the_policy(
    tmp_path: Path, reported: Dict, first: str, second: str
) -> None:
    program = cluster_of(tmp_path, documents(reported))
    result = kubectl_arguments(program)
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[:2] == [f"{first}: Write from b/y to a/x", f"  {second}"]
    assert ("so, once programmed: the peer" in lines[-1]) == (first != "DENIED")
    (policy_state,) = json.loads(kubectl_arguments(program, "-o", "json").stdout)["policies"]
    assert policy_state["policy"] == "a/no-writes"
    assert f"Programmed={policy_state['programmed']}" in second


def test_a_manifest_with_a_status_of_another_form_is_evaluated(tmp_path: Path) -> None:
    odd = {**NO_WRITES, "status": {"conditions": [5, {"type": "Programmed", "status": None}]}}
    for status in (odd["status"], 5, {"conditions": 5}):
        program = cluster_of(tmp_path, documents({**odd, "status": status}))
        assert "isolated by a/no-writes" in kubectl_arguments(program).stdout


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1", "is forbidden"),
        ("echo nonsense", "the answer is not JSON"),
        ("echo 5", "not a Kubernetes object"),
    ],
)
def test_a_refusal_by_the_cluster_is_one_line(tmp_path: Path, answer: str, said: str) -> None:
    result = kubectl_arguments(kubectl(tmp_path, answer))
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert kubectl_arguments(str(tmp_path / "none")).exit_code == 2


# Accepted by the API server's schema but not by the readers: In without values, a block's exception.
NO_VALUES = {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}
NO_BLOCK = {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["192.0.2.0/24"]}}]}


def test_another_tenants_mistake_does_not_prevent_an_answer(tmp_path: Path) -> None:
    """In a cluster the invalid policy denies everything to its pods, as in the operator, and is
    reported.
    """
    elsewhere = policy({"podSelector": {}, "ingress": [NO_BLOCK]}, "bad", "c")
    result = kubectl_arguments(cluster_of(tmp_path, documents(elsewhere)))
    assert result.exit_code == 0, result.output
    assert "unreadable, denies all: kubectl get rdmanetworkpolicies" in result.stderr
    assert "spec.ingress[0].from[0].ipBlock" in result.stderr
    here = policy({"podSelector": {}, "ingress": [NO_BLOCK]}, "bad")
    result = kubectl_arguments(cluster_of(tmp_path, documents(here)))
    assert result.exit_code == 1
    assert "isolated by a/bad" in result.stdout
    world = documents()
    many = {"metadata": {**world[8]["metadata"], "labels": {f"l{n}": "" for n in range(2000)}}}
    result = kubectl_arguments(cluster_of(tmp_path, [*world[:8], {**world[8], **many}, *world[9:]]))
    assert result.exit_code == 0
    assert "ignored: kubectl get pods" in result.stderr


@pytest.mark.parametrize("was_in_force", [True, False])
def test_a_network_that_cannot_be_read_is_closed_if_it_was_in_force(
    tmp_path: Path, was_in_force: bool
) -> None:
    lab = network([{"name": "train", "members": [NO_VALUES]}])
    if was_in_force:
        lab["status"] = {"partitions": [{"name": "train", "pkey": 5}]}
    result = kubectl_arguments(cluster_of(tmp_path, documents(lab)))
    assert result.exit_code == (1 if was_in_force else 0)
    assert "spec.partitions[0].members[0].podSelector" in result.stderr


def check(*found: Dict) -> Result:
    return run("check", "-f", "-", text=yaml.safe_dump_all([add_version(one) for one in found]))


def test_check_names_each_object_and_what_is_wrong() -> None:
    assert check(NO_WRITES).exit_code == 0
    assert check(NO_WRITES).output == "RDMANetworkPolicy a/no-writes: valid\n"
    twice = network([{"name": "a", "pkey": 5}, {"name": "b", "pkey": 5}])
    unknown = policy({"podSelector": {}, "ingress": [{"from": [{"partition": {"name": "q"}}]}]})
    bad = policy({"podSelector": {}, "ingress": [{"verbs": ["Reed"]}]}, "bad")
    result = check(NO_WRITES, twice, unknown, bad, NO_WRITES)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert "RDMANetworkPolicy a/no-writes: is also in -: document 1" in lines
    assert any(
        "RDMANetwork lab: spec.partitions[1].pkey: 0x0005 is partition lab/a's" in line
        for line in lines
    )
    assert any("RDMANetworkPolicy a/p: spec.ingress[0].from[0].partition" in line for line in lines)
    assert any("document 4" in line and "spec.ingress[0].verbs[0]" in line for line in lines)


@pytest.mark.parametrize("text", ["kind: Pod\napiVersion: v1", "", "a: ["])
def test_check_of_nothing_is_an_error(text: str) -> None:
    result = run("check", "-f", "-", text=text)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("explain", "--from", "a/x", "--to", "a/y"),
        ("explain", "--from", "a/x", "--to", "a/y", "--verb", "reed"),
        ("explain", "--from", "a/x", "--to", "a/y", "--verb", "read", "--pkey", "0x10000"),
        ("explain", "--from", "a/x", "--to", "a/y", "--verb", "read", "--space", "TCP"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert f"See 'tessera rdma {arguments[0]} --help' for usage." in result.stderr


def test_verbs_are_completed() -> None:
    shell = ShellComplete(main, {}, "tessera", "_TESSERA_COMPLETE")
    done = shell.get_completions(["rdma", "explain", "--verb"], "w")
    assert [item.value for item in done] == ["write", "writeimm"]


def test_a_deeply_nested_file_is_refused_with_its_line() -> None:
    result = run(
        "explain",
        "--from",
        "a/x",
        "--to",
        "b/y",
        "--verb",
        "read",
        "-f",
        "-",
        text="a: 1\n---\n" + "[" * 9000,
    )
    assert result.exit_code == 2
    assert "line 3: nested more than 64 levels deep" in result.output
