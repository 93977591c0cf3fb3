"""`kubectl tessera`: the pages' answers as text, kubectl's options and statuses, no writes."""

import contextlib
import json
import random
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml
from unit.console.test_console_faults import fail
from unit.console.test_console_room import claim

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.kubectl import access, entry, output
from drawing.slices import BoxState
from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Source

Run = Callable[..., tuple[int, str, str]]
RESOURCE = "gpu.tessera.dev/mig-3g.40gb"
LAYOUT = """
apiVersion: gpu.tessera.dev/v1alpha1
kind: MIGLayout
metadata: {name: mixed}
spec:
  selector: {pool: h100}
  instances: [%s]
"""


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s with seven slices, six of them held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    return cluster


@pytest.fixture
def run(
    node: SyntheticCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Return a function that runs the plugin, and returns its status, output and errors."""
    config = tmp_path / "config"
    contexts = [
        {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
        {"name": "other", "context": {"cluster": "c", "user": "u"}},
    ]
    document = {"apiVersion": "v1", "kind": "Config", "current-context": "main"}
    server = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    parts = {"contexts": contexts, "clusters": [server], "users": [{"name": "u", "user": {}}]}
    config.write_text(yaml.safe_dump(document | parts))

    @contextlib.asynccontextmanager
    async def connect(_: access.Access) -> AsyncIterator[Source]:
        yield node

    monkeypatch.setattr(access, "connect", connect)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            entry.main(["--kubeconfig", str(config), *arguments])
        printed = capsys.readouterr()
        return int(str(ended.value.code)), printed.out, printed.err

    return call


def test_the_map_draws_slices_at_the_positions_of_their_placements(run: Run) -> None:
    status, text, _ = run("map")
    assert status == 0
    title, memory, compute = text.splitlines()[2:5]
    assert title.split() == ["GPU", "0", "h100-80gb", "GPU", "1", "h100-80gb"]
    bar = memory[:39]  # 8 memory slices on 39 columns
    starts = [number for number, mark in enumerate(bar) if mark == "["]
    assert starts == [39 * unit // 8 for unit in range(7)]
    assert bar.endswith("-----")
    assert set(bar[starts[6] : -5]) == set("[1g].")  # the seventh is free, the others held
    assert "#" in bar[: starts[6]]
    assert "." not in bar[: starts[6]].replace("1g.10gb", "")
    of_compute = [number for number, mark in enumerate(compute[:39]) if mark == "["]
    assert of_compute == [39 * unit // 7 for unit in range(7)]
    assert "2 free, 12 held" in text


@pytest.mark.parametrize("columns", [12, 40, 80, 200])
def test_the_map_fits_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("map")[1].splitlines()[1:]
    assert max(map(len, lines)) <= columns
    assert sum(line.count("GPU ") for line in lines) == 2


def test_colours_are_for_terminals_only_and_no_color_turns_them_off(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in run("map")[1]
    monkeypatch.setattr(output.sys.stdout.__class__, "isatty", lambda _: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[34m" in run("map")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("map")[1]


def test_documents_have_every_slice_with_its_holders(run: Run, node: SyntheticCluster) -> None:
    _, text, _ = run("map", "-o", "json")
    slices = [s for g in json.loads(text)["nodes"][0]["gpus"] for s in g["slices"]]
    assert len(slices) == 14
    assert [s["memory"] for s in slices[:2]] == [{"start": 0, "size": 1}, {"start": 1, "size": 1}]
    first = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]["holders"][0]
    assert slices[0]["pods"] == [f"{first['namespace']}/{first['name']}"]
    assert yaml.safe_load(run("map", "-o", "yaml")[1]) == json.loads(text)
    _, wide, _ = run("map", "-o", "wide")
    assert wide.splitlines()[0].split()[:4] == ["NODE", "GPU", "BOARD", "SLICE"]
    assert len(wide.splitlines()) == 15


def test_a_namespace_restricts_the_map_only_if_an_option_names_it(
    run: Run, node: SyntheticCluster
) -> None:
    holders = node.objects["GPU"]["n1-gpu-1"]["status"]["slices"][0]["holders"]
    holders[0]["namespace"] = "rare"
    assert "GPU 0" in run("map")[1]
    text = run("map", "-n", "rare")[1]
    assert "GPU 1" in text
    assert "GPU 0" not in text
    assert run("-n", "none", "map")[2] == "No GPUs found.\n"


def test_top_prints_the_fullest_slice_first(run: Run, node: SyntheticCluster) -> None:
    one = node.objects["GPU"]["n1-gpu-1"]["status"]["slices"][4]
    one["memoryUsedBytes"] = one["memoryBytes"]
    line = run("top")[1].splitlines()[1].split()
    assert line[:3] == ["n1", "n1-gpu-1", "1g.10gb@4"]
    assert line[5] == "100%"
    assert one["uuid"] not in line
    wide = run("top", "-o", "wide")[1].splitlines()[1].split()
    assert wide == [*line, "h100-80gb", one["uuid"]]


def test_a_lost_gpu_has_no_memory_in_use(run: Run, node: SyntheticCluster) -> None:
    node.objects["GPU"]["n1-gpu-0"]["status"]["lost"] = True
    lines = [one.split() for one in run("top")[1].splitlines()[1:]]
    assert {tuple(one[3:6:2]) for one in lines if one[1] == "n1-gpu-0"} == {("<lost>", "<lost>")}
    assert all("<lost>" not in one for one in lines if one[1] == "n1-gpu-1")
    found = json.loads(run("top", "-o", "json")[1])["slices"]
    assert {one["memoryUsedBytes"] for one in found if one["lost"]} == {None}
    (node_found,) = json.loads(run("map", "-o", "json")[1])["nodes"]
    assert [one["lost"] for one in node_found["gpus"]] == [True, False]
    assert {one["state"] for one in node_found["gpus"][0]["slices"]} == {"lost"}
    assert "7 lost" in run("map")[1]


def test_why_prints_the_chain_of_the_page(run: Run, node: SyntheticCluster) -> None:
    synthetic.add_pending_pod(node, "ml", "big", {RESOURCE: "1"})
    status, text, _ = run("why", "pod/big")
    assert status == 0
    assert f"1 x {RESOURCE}" in text
    assert "1 does not have this resource" in text
    assert "The planner proposes" in text
    assert re.search(r"end \S+ on 1g\.10gb@", text)
    (request,) = json.loads(run("why", "big", "-o", "json")[1])["requests"]
    assert request["obstacles"] == {"does not have this resource": 1}
    assert request["advice"]["moves"][0]["evicts"] is True


def test_why_advises_another_prefix(run: Run, node: SyntheticCluster) -> None:
    synthetic.add_pending_pod(node, "ml", "misnamed", {"nvidia.com/gpu": "1"})
    advice = "nodes offer gpu.tessera.dev/gpu, and not nvidia.com/gpu"
    status, text, _ = run("why", "misnamed")
    assert status == 0
    assert advice in text
    (document,) = json.loads(run("why", "misnamed", "-o", "json")[1])["misnamed"]
    assert advice in document


def test_why_chooses_the_namespace_as_kubectl_does(run: Run, node: SyntheticCluster) -> None:
    for space in ("ml", "other"):
        synthetic.add_pending_pod(node, space, f"in-{space}", {RESOURCE: "1"})
    assert "in-ml" in run("why")[1]
    assert "in-other" not in run("why")[1]
    assert "in-other" in run("why", "-A")[1]
    assert run("why", "in-other")[0] == 1
    assert run("why", "in-other", "-n", "other")[0] == 0
    assert run("--context", "other", "why")[2].startswith("No pod")  # the context names none
    assert run("why", "in-ml", "-A")[0] == 1


def test_a_users_own_namespace_suffices_to_explain_a_pod(run: Run, node: SyntheticCluster) -> None:
    synthetic.add_pending_pod(node, "ml", "big", {RESOURCE: "1"})
    node.refused["GPUPolicy"] = errors.Refused("list GPUPolicy: forbidden")
    status, text, problems = run("why", "big")
    assert status == 0
    assert "does not have this resource" in text
    assert "The planner proposes" not in text  # the policy has the prefix of resources
    assert "Not complete: GPUPolicy cannot be read" in text
    assert problems == "warning: list GPUPolicy: forbidden\n"


def _restrict(node: SyntheticCluster, refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user list a kind in single namespaces only."""
    page = node.page

    async def restricted(kind: str, chosen: Chosen, token: str = "") -> object:
        if kind == refused and not chosen.namespace:
            raise errors.Refused(f"list {refused}: forbidden")
        return await page(kind, chosen, token)

    monkeypatch.setattr(node, "page", restricted)


def test_kinds_that_may_be_listed_in_one_namespace_only_are_named(
    run: Run, node: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.add_policies(node)
    synthetic.add_rdma_pod(node, "ml", "a", "x")
    synthetic.add_rdma_pod(node, "training", "b", "x")
    _restrict(node, "Pod", monkeypatch)
    status, text, problems = run("rdma", "matrix")
    assert status == 0
    assert "ml/a" in text
    assert problems == "warning: Pod: only of namespace ml: you may not list others\n"


def test_no_verdict_is_given_without_the_policies_of_both_namespaces(
    run: Run, node: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.add_policies(node)
    synthetic.add_rdma_pod(node, "ml", "a", "x")
    synthetic.add_rdma_pod(node, "training", "b", "x")
    pair = ("rdma", "explain", "--from", "a", "--to", "training/b", "--verb", "Read")
    assert run(*pair)[0] in (0, 1)
    _restrict(node, "RDMANetworkPolicy", monkeypatch)
    for arguments in (pair, ("rdma", "matrix", "-A")):
        status, text, problems = run(*arguments)
        assert status == (2 if arguments is pair else 1)
        assert text == ""
        assert "you may list RDMANetworkPolicy in namespace ml only" in problems
    assert run("rdma", "matrix")[0] == 0


def test_nodes_that_may_not_be_listed_are_not_reported_as_absent(
    run: Run, node: SyntheticCluster
) -> None:
    node.refused["Node"] = errors.Refused("list Node: forbidden")
    status, text, problems = run("map", "-o", "json")
    assert status == 0
    assert "does not exist" not in text
    assert problems == "warning: list Node: forbidden\n"


@pytest.mark.parametrize(
    ("instances", "expected", "counts"),
    [
        ("{profile: 1g.10gb, count: 7}", 0, (0, 0)),
        ("{profile: 3g.40gb}, {profile: 1g.10gb, count: 4}", 1, (2, 6)),
    ],
)
def test_the_status_of_a_layout_diff_states_whether_slices_change(
    run: Run, tmp_path: Path, instances: str, expected: int, counts: tuple[int, int]
) -> None:
    file = tmp_path / "layout.yaml"
    file.write_text(LAYOUT % instances)
    status, text, _ = run("layout", "diff", "-f", str(file))
    assert status == expected
    assert f"{counts[0]} slices created, {counts[1]} destroyed" in text
    document = json.loads(run("layout", "diff", "-f", str(file), "-o", "json")[1])
    assert (document["created"], document["destroyed"]) == counts
    assert len(document["pods"]) == sum(len(c["held"]) for c in document["changes"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("layout", "diff"),
        ("layout", "diff", "-f", "/does/not/exist"),
        ("layout", "diff", "-f", "/dev/null"),
        ("layout", "diff", "--unknown"),
        ("rdma", "explain", "--from", "a", "--to", "b", "--verb", "read"),
        ("rdma", "explain", "--from", "a", "--to", "b", "--verb", "fly"),
    ],
)
def test_errors_of_commands_with_verdicts_have_status_2(run: Run, arguments: str) -> None:
    status, text, problem = run(*arguments)
    assert (status, text) == (2, "")
    assert problem.startswith("error: ")
    assert problem.count("\n") == 1


def test_a_crash_is_no_verdict(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "layout.yaml"
    file.write_text(LAYOUT % "{profile: 7g.80gb}")
    monkeypatch.setattr("console.views.layout_diff.diff", lambda *_: 1 / 0)
    assert run("layout", "diff", "-f", str(file))[0] == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("map", "n9"), "n9"),
        (("map", "-o", "xml"), "xml"),
        (("paint",), "paint"),
        (("why", "none"), "none"),
        (("why", "a/b"), "a/b"),
        (("why", "--context", "absent"), "absent"),
        (("why", "--kubeconfig", "/absent"), "/absent"),
    ],
)
def test_errors_are_one_line_with_status_1(
    run: Run, arguments: tuple[str, ...], named: str
) -> None:
    status, text, problem = run(*arguments)
    assert (status, text) == (1, "")
    assert problem.startswith("error: ")
    assert named in problem
    assert problem.count("\n") == 1


def test_a_kind_that_cannot_be_listed_is_an_error(run: Run, node: SyntheticCluster) -> None:
    node.refused["GPU"] = errors.Refused("list GPU: gpus is forbidden:\nUser u")
    assert run("map") == (1, "", "error: list GPU: gpus is forbidden: User u\n")


def test_rdma_verbs_give_the_evaluators_verdicts(run: Run, node: SyntheticCluster) -> None:
    synthetic.add_policies(node)
    for policy in node.objects["RDMANetworkPolicy"].values():
        condition = {"type": "Programmed", "status": "True", "reason": "Programmed"}
        condition |= {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
        policy["status"] = {"conditions": [condition], "nodesReady": "1/1"}
    for space in ("training", "ml"):
        node.put("Namespace", {"kind": "Namespace", "metadata": {"name": space}, "spec": {}})
    for name, app in (("w", "weights"), ("t", "trainer"), ("o", "other")):
        synthetic.add_rdma_pod(node, "training", name, app)
    ends = ("--from", "t", "--to", "training/w", "-n", "training")
    status, text, _ = run("rdma", "explain", *ends, "--verb", "write")
    assert status == 1
    assert text.startswith("DENIED: Write from training/t to training/w\n  enforced: policy ")
    wide = run("rdma", "explain", *ends, "--verb", "write", "-o", "wide")[1]
    assert wide.startswith(text)
    drawn = wide.removeprefix(text)
    assert drawn.startswith("training/t ── egress passes")
    assert "─✕ ingress denies" in drawn
    assert run("rdma", "explain", *ends, "--verb", "read")[0] == 0
    key = "training/read-only-weights"
    del node.objects["RDMANetworkPolicy"][key]["status"]
    status, text, _ = run("rdma", "explain", *ends, "--verb", "write")
    assert status == 1
    first, second, *_ = text.splitlines()
    assert first == "WILL BE DENIED ONCE PROGRAMMED: Write from training/t to training/w"
    assert second.startswith(f"  not enforced everywhere yet: policy {key}: Programmed=Unknown")
    answer = json.loads(run("rdma", "explain", *ends, "--verb", "write", "-o", "json")[1])
    assert [(one["policy"], one["programmed"]) for one in answer["policies"]] == [(key, "Unknown")]
    rows = [line.split() for line in run("rdma", "matrix", "-n", "training")[1].splitlines()]
    assert rows[1:4] == [
        ["1", "training/o", "all", "all", "-"],
        ["2", "training/t", "all", "all", "SR"],
        ["3", "training/w", "all", "all", "all"],
    ]
    assert run("rdma", "matrix")[2].startswith("No pod in namespace ml ")


def test_control_characters_of_the_cluster_do_not_reach_the_terminal(
    run: Run, node: SyntheticCluster
) -> None:
    pod = synthetic.add_pending_pod(node, "ml", "big", {RESOURCE: "1"})
    pod["status"]["conditions"][0]["message"] = "\x1b]0;title\x07 \u202egnp"
    text = run("why", "big")[1]
    assert "title" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_nothing_is_watched(run: Run, node: SyntheticCluster) -> None:
    run("map")
    assert node.lists == {"GPU": 1, "Node": 1, "GPUPool": 1, "GPUFault": 1}
    assert node.watches == {}


def test_completion_has_kubectls_form(capsys: pytest.CaptureFixture[str]) -> None:
    entry.complete(["layout", ""])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("diff\t")
    assert lines[-1] == ":4"
    entry.complete(["map", "--po"])
    assert capsys.readouterr().out.splitlines()[0].startswith("--pool")


def test_each_state_has_its_own_character() -> None:
    from drawing.terminal import MARKS

    assert set(MARKS) == set(BoxState)
    assert len(set(MARKS.values())) == len(MARKS)


def test_a_missing_library_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "console.kubectl.command", None)
    status, text, problem = run("map")
    assert (status, text) == (1, "")
    assert "pip install 'tessera[console]'" in problem
    assert problem.count("\n") == 1


def test_gaps_and_shared_memory_have_their_true_positions(run: Run, node: SyntheticCluster) -> None:
    del node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][2]
    del node.objects["GPU"]["n1-gpu-0"]["spec"]["instances"][2]
    mix = ("1c.3g.40gb", "1c.3g.40gb", "3g.40gb")
    shared = synthetic.gpu_document("n1", 1, "h100-80gb", mix, random.Random(1), alike=True)
    node.put("GPU", shared)
    _, first, second, *_ = run("map")[1].splitlines()[2:]
    assert [number for number, mark in enumerate(first[:39]) if mark == "-"] == [
        *range(39 * 2 // 8, 39 * 3 // 8),
        *range(39 * 7 // 8, 39),
    ]
    right = [line[41:] for line in (first, second)]
    assert [line[: 39 // 2].strip("[]#") for line in right] == ["1c.3g.40gb"] * 2
    assert "3g.40gb" in right[0][39 // 2 :]


def test_a_pod_without_an_hca_is_not_reported_as_absent(run: Run, node: SyntheticCluster) -> None:
    synthetic.add_policies(node)
    synthetic.add_rdma_pod(node, "ml", "a", "x")
    plain = synthetic.add_rdma_pod(node, "ml", "plain", "x")
    plain["spec"]["containers"][0]["resources"] = {}
    pair = ("rdma", "explain", "--from", "a", "--to", "plain", "--verb", "Read")
    status, _, problem = run(*pair)
    assert status == 2
    assert "pod ml/plain holds no HCA: it requests none, has ended, or does not exist" in problem


def test_a_command_that_finds_no_pod_names_the_namespace_that_it_read(run: Run) -> None:
    assert "in namespace ml (-A: in all namespaces)" in run("why")[2]
    assert "in any namespace" in run("why", "-A")[2]
    assert "in namespace ml (-A: in all namespaces)" in run("rdma", "matrix")[2]
    assert "in any namespace" in run("rdma", "matrix", "-A")[2]


def test_slices_are_counted_by_profile_on_the_map_and_the_page_of_a_node(
    run: Run, node: SyntheticCluster
) -> None:
    whole = synthetic.gpu_document("n1", 2, "h100-80gb", ("whole",), random.Random(1))
    whole["status"]["slices"][0]["holders"] = []
    node.put("GPU", whole)
    assert run("map")[1].splitlines()[1] == "1g.10gb: 2 of 14 free; whole: 1 of 1 free"
    (found,) = json.loads(run("map", "-o", "json")[1])["nodes"]
    counts = {"free": 1, "total": 1, "allocatable": 1}
    assert found["profiles"][1] == {"profile": "whole", **counts}


def test_every_slice_on_the_map_has_the_sign_of_its_state(run: Run) -> None:
    memory = run("map")[1].splitlines()[3]
    bars = re.findall(r"\[[^]]*\]", memory)
    assert len(bars) == 14
    assert "." in bars[6]
    assert [("#" in bar) for bar in bars[:7]] == [True] * 6 + [False]


@pytest.mark.parametrize("columns", range(20, 120, 7))
def test_the_legend_keeps_signs_beside_their_words(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("map")[1].splitlines()
    assert any(line.startswith("? requested") or ", ? requested" in line for line in lines)
    assert not [line for line in lines if line.endswith((" ?", " x", " ~", " !"))]


def test_top_shows_little_use_and_health(run: Run, node: SyntheticCluster) -> None:
    slices = node.objects["GPU"]["n1-gpu-1"]["status"]["slices"]
    for gpu in node.objects["GPU"].values():
        for one in gpu["status"]["slices"]:
            one["memoryUsedBytes"] = 0
    slices[4] |= {"memoryUsedBytes": slices[4]["memoryBytes"] // 250, "health": "Suspect: Xid 63"}
    assert run("top")[1].splitlines()[1].split()[5:9] == ["0.4%", "Suspect:", "Xid", "63"]


def test_the_matrix_accepts_every_form(run: Run, node: SyntheticCluster) -> None:
    synthetic.add_policies(node)
    synthetic.add_rdma_pod(node, "ml", "a", "x")
    assert run("rdma", "matrix", "-o", "wide") == run("rdma", "matrix")


def test_the_map_shows_the_slice_of_a_claim_under_a_requested_whole_gpu(
    run: Run, node: SyntheticCluster
) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    held = claim(gpu["status"]["slices"][6])
    gpu["status"] |= {"slices": [], "claims": [held]}
    gpu["spec"] |= {"instances": [{"profile": "whole", "start": 0}], "allocation": "Both"}
    text = run("map")[1]
    assert "[+1g]" in text.splitlines()[3][:39]
    assert "GPU 0 requested: whole@0 after 1g.10gb@6 ends" in text
    (first, _) = json.loads(run("map", "-o", "json")[1])["nodes"][0]["gpus"]
    assert [one["state"] for one in first["slices"]] == ["claimed", "requested"]
    assert first["requestedAfter"] == {"whole@0": ["1g.10gb@6"]}
    gpu["spec"]["layout"] = None
    assert "requested:" not in run("map")[1]


def test_the_map_names_the_faults_of_a_sick_gpu(run: Run, node: SyntheticCluster) -> None:
    fail(node, "drill", "Unhealthy", gpu="n1-gpu-0", hang=True)
    assert "GPU 0 Unhealthy, GPUFault drill (hang, Xid 109)" in run("map")[1]
    node.refused["GPUFault"] = errors.Refused("faults are forbidden")
    _, text, problem = run("map")
    assert "GPU 0 Unhealthy, hang\n" in text
    assert "faults are forbidden" in problem
    del node.refused["GPUFault"]
    node.remove("GPUFault", "drill")
    assert "GPU 0 Unhealthy, hang, Xid 109, deleted" in run("map")[1]
