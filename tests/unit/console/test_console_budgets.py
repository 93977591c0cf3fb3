"""Which PodDisruptionBudgets limit the evictions of a layout, by the Eviction API's rules."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from unit.console import test_kubectl_plugin as plugin
from unit.console.test_console_pages import post

from benchmarks.console.synthetic import SyntheticCluster
from console.model import budgets
from console.model.budgets import read_budgets, write_selector
from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document
from support.rigs.console_rig import open_console

node, run = plugin.node, plugin.run  # fixtures
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


def make_pod(name: str, status: Document = READY, **metadata: Any) -> Document:
    return {"metadata": {"namespace": "ml", "name": name, **metadata}, "status": status}


def make_budget(name: str, allowed: int = 0, spec: Any = None, **status: Any) -> Document:
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"namespace": "ml", "name": name, "generation": 2},
        "spec": {"selector": selector} | (spec or {}),
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 2} | status,
    }


class Api:
    """An API server with budgets, and the pods that each selector selects."""

    def __init__(self, found: list[Document], pods: dict[str, list[Document]]) -> None:
        self.found, self.pods = found, pods

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        """Return a page with one object, so that every list has several pages."""
        every = self.found if kind == budgets.KIND else self.pods.get(chosen.labels, [])
        every = [one for one in every if one["metadata"]["namespace"] == chosen.namespace]
        first = int(token or 0)
        more = {"continue": str(first + 1)} if first + 1 < len(every) else {}
        return {"metadata": more, "items": every[first : first + 1]}


def read(api: Api, *pods: str) -> budgets.Budgets:
    return asyncio.run(read_budgets(api, [f"ml/{pod}" for pod in pods]))


def test_a_budget_limits_only_the_pods_that_are_to_be_evicted() -> None:
    pods = [make_pod("a"), make_pod("b"), make_pod("stays")]
    found = read(Api([make_budget("web", 1)], {"app=web": pods}), "a", "b", "other")
    (budget,) = found.found
    assert (budget.pods, budget.allowed, budget.refused) == (("ml/a", "ml/b"), 1, 1)
    assert budget.text == "allows 1 eviction now, of 2 needed: the operator retries the others"
    assert (found.several, found.problem) == ((), "")


def test_a_budget_of_other_pods_or_of_another_namespace_is_not_mentioned() -> None:
    other = make_budget("web", 0)
    other["metadata"]["namespace"] = "else"
    api = Api([make_budget("db"), other], {"app=db": [make_pod("stays")]})
    assert read(api, "a") == budgets.Budgets()


def test_the_api_server_refuses_to_evict_a_pod_that_two_budgets_select() -> None:
    api = Api(
        [make_budget("web", 5), make_budget("all", 5)],
        {"app=web": [make_pod("a")], "app=all": [make_pod("a"), make_pod("b")]},
    )
    assert read(api, "a", "b").several == ("ml/a",)


def test_two_budgets_refuse_a_pod_even_if_neither_limits_it() -> None:
    allow = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
    pods = [make_pod("a", UNREADY)]
    api = Api(
        [make_budget("web", spec=allow), make_budget("all", spec=allow)],
        {"app=web": pods, "app=all": pods},
    )
    assert read(api, "a") == budgets.Budgets(several=("ml/a",))


def test_pods_beyond_the_pages_that_are_read_are_named_as_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budgets, "_MOST_PAGES", 2)
    pods = [make_pod(name) for name in "abc"]
    found = read(Api([make_budget("web")], {"app=web": pods}), "c")
    assert found.problem == "ml/web selects more pods than are read"


@pytest.mark.parametrize(
    ("pod", "budget", "limited"),
    [
        (make_pod("a"), make_budget("web"), True),
        (make_pod("a", {"phase": "Pending"}), make_budget("web"), False),
        (make_pod("a", {"phase": "Succeeded"}), make_budget("web"), False),
        (make_pod("a", deletionTimestamp="2026-01-01T00:00:00Z"), make_budget("web"), False),
        (make_pod("a", UNREADY), make_budget("web", currentHealthy=1, desiredHealthy=2), True),
        (make_pod("a", UNREADY), make_budget("web", currentHealthy=2, desiredHealthy=2), False),
        (make_pod("a", UNREADY), make_budget("web", currentHealthy=0, desiredHealthy=0), True),
        (
            make_pod("a", UNREADY),
            make_budget("web", spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
            False,
        ),
    ],
)
def test_which_evictions_count_against_a_budget(
    pod: Document, budget: Document, limited: bool
) -> None:
    assert budgets.is_limited(pod, budget) is limited


def test_a_budget_whose_status_is_older_than_its_spec_refuses_every_eviction() -> None:
    api = Api([make_budget("web", 5, observedGeneration=1)], {"app=web": [make_pod("a")]})
    (budget,) = read(api, "a").found
    assert budget.refused == 1
    assert "older than its spec" in budget.text


def test_selectors_have_the_syntax_of_a_request() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "zone", "operator": "NotIn", "values": ["x"]},
        {"key": "gpu", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    written = write_selector({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert written == "app=web,tier in (a,b),zone notin (x),gpu,!old"
    assert write_selector({}) == ""
    assert write_selector(None) is None


def test_too_many_budgets_are_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MOST_BUDGETS", 1)
    api = Api([make_budget("web"), make_budget("db")], {"app=web": [make_pod("a")]})
    assert read(api, "a").problem == "only the first 1 of namespace ml are read"


def hold(cluster: SyntheticCluster, allowed: int) -> set[str]:
    """Put pods for the holders of all slices, and one budget that selects them; return them."""
    names = {
        (holder["namespace"], holder["name"])
        for gpu in cluster.objects["GPU"].values()
        for one in gpu["status"]["slices"]
        for holder in one.get("holders", ())
    }
    for space, name in names:
        pod = make_pod(name) | {"kind": "Pod", "spec": {"nodeName": "n1"}}
        pod["metadata"]["namespace"] = space
        cluster.put("Pod", pod)
    for space in {space for space, _ in names}:
        budget = make_budget("limit", allowed, {"selector": {}})
        budget["metadata"]["namespace"] = space
        cluster.put(budgets.KIND, budget)
    return {f"{space}/{name}" for space, name in names}


def write_evicting(path: Path) -> Path:
    text = plugin.LAYOUT % "{profile: 3g.40gb}"
    path.write_text(text + "  rollout: {onInUse: Evict}\n")
    return path


def test_the_plugin_names_budgets_and_the_evictions_that_they_refuse(
    run: plugin.Run,
    node: SyntheticCluster,
    tmp_path: Path,
) -> None:
    evicted = hold(node, 0)
    file = str(write_evicting(tmp_path / "layout.yaml"))
    document = json.loads(run("layout", "diff", "-f", file, "-o", "json")[1])
    limiting = document["budgets"]["limiting"]
    assert {pod for one in limiting for pod in one["pods"]} == evicted & set(document["pods"])
    assert sum(one["refusedNow"] for one in limiting) == len(document["pods"]) > 0
    text = " ".join(run("layout", "diff", "-f", file)[1].split())
    assert "/limit allows 0 evictions now" in text


def test_the_plugin_says_why_budgets_are_not_known(
    run: plugin.Run,
    node: SyntheticCluster,
    tmp_path: Path,
) -> None:
    hold(node, 0)
    node.refused[budgets.KIND] = errors.Refused("list PodDisruptionBudget: forbidden")
    file = str(write_evicting(tmp_path / "layout.yaml"))
    text = run("layout", "diff", "-f", file)[1]
    problem = "PodDisruptionBudgets: not permitted: list PodDisruptionBudget: forbidden"
    assert problem in " ".join(text.split())
    assert "no PodDisruptionBudget limits" not in text


def test_evictions_that_budgets_refuse_are_counted_once() -> None:
    one = budgets.Budget("ml", "one", 1, ("ml/a", "ml/b", "ml/c", "ml/d"))
    two = budgets.Budget("ml", "two", 5, ("ml/d", "ml/e"))
    assert budgets.Budgets((one,)).refused == 3
    assert budgets.Budgets((one, two), ("ml/d",)).refused == 3  # two of a, b and c, and d
    assert budgets.Budgets().refused == 0


@pytest.mark.parametrize(("is_readable", "count"), [(True, r"[1-9]\d*"), (False, "not known")])
def test_the_page_states_how_many_of_the_evictions_are_refused_now(
    node: SyntheticCluster, tmp_path: Path, is_readable: bool, count: str
) -> None:
    hold(node, 1)
    text = write_evicting(tmp_path / "layout.yaml").read_text()

    async def use() -> tuple[str, str]:
        async with open_console(node) as console:
            console.pages._lister = node if is_readable else None
            wait = text.replace("Evict", "Wait")
            bodies = [urlencode({"manifest": one}).encode() for one in (text, wait)]
            pages = [await console.request("/layout", method="POST", body=one) for one in bodies]
            return pages[0].text, pages[1].text

    evicting, waiting = asyncio.run(use())
    sums = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", evicting))
    assert re.fullmatch(count, sums["refused now by budgets"])
    assert int(sums["pods to evict"]) > 0
    assert "refused now by budgets" not in waiting
    if is_readable:
        named = re.findall(r"allows 1 eviction now, of (\d+) needed", evicting)
        assert int(sums["refused now by budgets"]) == sum(max(int(one) - 1, 0) for one in named)


def test_a_layout_that_waits_for_pods_reads_no_budget(
    run: plugin.Run,
    node: SyntheticCluster,
    tmp_path: Path,
) -> None:
    hold(node, 0)
    file = tmp_path / "layout.yaml"
    file.write_text(plugin.LAYOUT % "{profile: 3g.40gb}")
    assert "budgets" not in json.loads(run("layout", "diff", "-f", str(file), "-o", "json")[1])
    assert budgets.KIND not in node.lists


def test_the_page_says_that_it_cannot_read_budgets(
    node: SyntheticCluster,
    tmp_path: Path,
) -> None:
    text = post(node, write_evicting(tmp_path / "layout.yaml").read_text()).text
    assert "PodDisruptionBudgets: <bdi>this console has no connection to an API server" in text
