"""Clients' suites: how their tests are run again, their misses named, and their counts shown."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks.clients import __main__ as command, execution, look_ups, page, store, summary
from benchmarks.clients.catalogue import CLIENTS
from benchmarks.clients.client import Client, Known
from benchmarks.clients.outcomes import FileRun, Outcome, read_run
from benchmarks.clients.reasons import Kind, find_reason
from benchmarks.clients.suite import Suite
from vgpu_sim.clients.codegen.library import Function

ROOT = Path(__file__).parents[3]
REPORTER = ROOT / "benchmarks" / "clients" / "reporter"


def make_miss(headline: str = "", output: str = "", calls: tuple[str, ...] = ()) -> Outcome:
    return Outcome("t", "failed", headline, "", output, calls)


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        (
            make_miss("CUDAError: CUDA_ERROR_NOT_SUPPORTED", "", ("cuMemAllocManaged=801",)),
            Kind.UNSUPPORTED,
            "`cuMemAllocManaged`",
        ),
        (
            make_miss("x", "", ("cuGetExportTable=500", "cuMemHostRegister_v2=801", "cuFree=801")),
            Kind.UNSUPPORTED,
            "`cuMemHostRegister`",
        ),
        (
            make_miss("x", "", ("cuLibraryLoadData=209",)),
            Kind.UNSUPPORTED,
            "`cuLibraryLoadData` of a cubin (machine code)",
        ),
        (
            make_miss("CUDA_ERROR_INVALID_PTX: …", "tessera: line 1\n", ("cuModuleLoadData=218",)),
            Kind.DRIVER_ERROR,
            "`CUDA_ERROR_INVALID_PTX` from `cuModuleLoadData`: line …",
        ),
        (
            make_miss("PTXAS error\nptxas /tmp/a.ptx, line 7; error   : no 'wgmma' yet: wgmma;"),
            Kind.UNSUPPORTED,
            "`ptxas`: no … yet",
        ),
        (make_miss("AssertionError: \nNot equal to tolerance"), Kind.WRONG_VALUE, None),
        (make_miss("AssertionError: 7 != 8"), Kind.WRONG_VALUE, "AssertionError: … != …"),
        (make_miss("AssertionError: 'a' not found"), Kind.OTHER, None),
        (Outcome("t", "crashed"), Kind.CRASHED, None),
        (Outcome("t", "timed out"), Kind.TIMED_OUT, None),
    ],
)
def test_a_miss_has_its_first_cause(outcome: Outcome, kind: Kind, reason: str | None) -> None:
    found = find_reason(outcome)
    assert found[0] == kind
    if reason is not None:
        assert found[1] == reason


def test_a_refused_call_is_no_wrong_value_and_a_known_miss_is_explained() -> None:
    outcome = make_miss("AssertionError: 7 != 8", "", ("cuGraphCreate=801",))
    assert find_reason(outcome)[0] == Kind.UNSUPPORTED
    known = (Known("7 != 8", "why"),)
    assert find_reason(outcome, known) == (Kind.KNOWN, "why")
    one, other = (replace(outcome, test=f"test_sum[{name}]", calls=()) for name in ("bf16", "f16"))
    known = (Known(r"test_sum\[bf16", "why"),)
    assert find_reason(one, known) == (Kind.KNOWN, "why")
    assert find_reason(other, known)[0] == Kind.WRONG_VALUE


SUITE = """
import os, pytest
def test_a(): pass
def test_b():
    with open(os.environ["TESSERA_TRACE"], "a") as trace:
        trace.write("1.0 7 cuGraphCreate() = 801 30 ns\\n1.0 7 cuInit(Flags=0) = 0 9 ns\\n")
    raise ValueError("not here")
@pytest.mark.skip(reason="no")
def test_c(): pass
def test_d(): os._exit(3)
def test_e(): pass
"""


def run_suite(folder: Path, only: list[str] | None) -> list[str]:
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    results, trace = folder / "results.jsonl", folder / "trace"
    results.write_text("")
    trace.write_text("")
    environment = os.environ | {
        "PYTHONPATH": str(REPORTER),
        "TESSERA_CLIENT_RESULTS": str(results),
        "TESSERA_TRACE": str(trace),
    }
    if only is not None:
        (folder / "only.json").write_text(json.dumps(only))
        environment["TESSERA_CLIENT_ONLY"] = str(folder / "only.json")
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "tessera_reporter"]
    command = [*pytest_, "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=False)
    return results.read_text().splitlines()


def test_an_option_that_selects_no_file_is_an_error(tmp_path: Path, monkeypatch, capsys) -> None:
    """The outcomes of the last run stay: they are not opened."""
    client = CLIENTS["cuda-samples"]
    (tmp_path / "test_samples.py").write_text("def test_vector_add(): pass\n")
    suite = Suite(replace(client, tests=("test_*.py",), ignored=()), tmp_path, None)
    monkeypatch.setattr(command, "open_suite", lambda *_: suite)
    monkeypatch.setattr(command, "Store", lambda _: pytest.fail("outcomes were opened"))
    arguments = ["clients", "--client=cuda-samples", "--only=vector_add"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "--only selects test files, and none has 'vector_add'" in capsys.readouterr().err


def test_tests_from_a_folder_without_a_commit_are_not_those_of_the_tag(tmp_path: Path) -> None:
    suite = Suite(CLIENTS["pytorch-tests-cuda"], tmp_path, tmp_path)
    assert suite.source == "a folder without a commit"


def test_the_rest_of_a_file_runs_after_a_test_that_ends_the_process(tmp_path: Path) -> None:
    first = read_run(run_suite(tmp_path, None))
    assert not first.has_ended
    outcomes = {test.rpartition("::")[2]: o for test, o in first.outcomes.items()}
    assert {name: o.outcome for name, o in outcomes.items()} == {
        "test_a": "passed",
        "test_b": "failed",
        "test_c": "skipped",
        "test_d": "crashed",
    }
    assert outcomes["test_b"].calls == ("cuGraphCreate=801",)
    assert "not here" in outcomes["test_b"].headline
    rest = read_run(run_suite(tmp_path, first.pending()))
    assert rest.has_ended
    assert [o.outcome for o in rest.outcomes.values()] == ["passed"]


def test_an_interrupted_file_continues_where_it_was(tmp_path: Path, monkeypatch) -> None:
    suite = Suite(CLIENTS["cuda-samples"], tmp_path, None)
    monkeypatch.setattr(store, "folder_of", lambda _: tmp_path)
    monkeypatch.setattr(execution, "folder_of", lambda _: tmp_path)
    kept = store.Store(suite.client)
    wanted: list[Sequence[str] | None] = []

    def run_pytest(_suite: Suite, _paths: Sequence[str], only: Sequence[str] | None) -> FileRun:
        wanted.append(only)
        if only is None:
            (tmp_path / "scratch").mkdir()
            events = [
                {"event": "collected", "tests": ["a", "b", "c"]},
                {"event": "finished", "test": "a", "outcome": "passed"},
                {"event": "started", "test": "b"},
            ]
            results = "".join(json.dumps(event) + "\n" for event in events)
            (tmp_path / "scratch" / "results.jsonl").write_text(results)
            raise KeyboardInterrupt
        return FileRun(list(only), {one: Outcome(one, "failed") for one in only}, has_ended=True)

    monkeypatch.setattr(execution, "_run_pytest", run_pytest)
    with pytest.raises(KeyboardInterrupt):
        execution.run_file(suite, "f.py", keep=partial(kept.put_part, "f.py"))
    assert list(kept.outcomes()) == []
    run = execution.run_file(suite, "f.py", begun=kept.part("f.py"))
    assert wanted == [None, ["b", "c"]]
    assert [one.outcome for one in run.outcomes.values()] == ["passed", "failed", "failed"]
    kept.put("f.py", list(run.outcomes.values()), "commit")
    assert kept.part("f.py") is None
    kept.close()


def test_counts_and_groups_survive_the_record_and_reach_the_page() -> None:
    client = CLIENTS["cuda-core"]
    miss = make_miss("x", "", ("cuGraphCreate=801",))
    outcomes = [Outcome("a", "passed"), miss, miss, Outcome("b", "skipped", message="Skipped: no")]
    whole = summary.summarize(client, outcomes, {"numpy": "2"}, command="c", tessera="d", date="e")
    fields = json.loads(json.dumps(summary.as_json(whole)))
    assert summary.from_json(fields) == whole
    text = page.render({client.name: whole})
    assert f"| {client.name} {client.version} | the client's | 4 | 1 | 1 | 2 | 0 | 0 |" in text
    assert "| 2 | unsupported call | `cuGraphCreate` | `t` |" in text


def test_the_page_has_the_rate_also_without_the_misses_of_an_explained_cause() -> None:
    client = replace(CLIENTS["cuda-core"], known=(Known("unlike", "explained so"),))
    misses = [make_miss("unlike"), make_miss("unlike"), make_miss("x")]
    outcomes = [*(Outcome(str(i), "passed") for i in range(5)), *misses, Outcome("s", "skipped")]

    def shown(client: Client) -> str:
        whole = summary.summarize(client, outcomes, {}, command="c", tessera="d", date="e")
        return page.section(client, whole)

    rate = "5 of the 8 tests that ran and were not skipped pass (62.5 %)"
    explained = "; without the 2 of the first reason below it is 5 of 6 (83.3 %)."
    assert rate + explained in shown(client)
    assert rate + ".\n" in shown(replace(client, known=()))


def test_a_sample_counts_the_rest_of_the_suite_as_not_run() -> None:
    client = CLIENTS["pytorch"]
    whole = summary.summarize(
        client,
        [Outcome("a", "passed"), make_miss()],
        {},
        40,
        command="c",
        tessera="d to e",
        date="",
    )
    row = f"| {client.name} {client.version} (sample, mixed) | ours | 40 | 1 | 0 | 1 | 0 | 38 |"
    assert row in page.render({client.name: whole})


def test_the_page_is_current_and_every_record_has_a_client() -> None:
    recorded = summary.read_all()
    assert set(recorded) <= set(CLIENTS)
    shown = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    assert shown == page.render(recorded, look_ups.read())


def test_a_name_that_is_looked_up_means_the_symbol_of_its_version() -> None:
    lines = (
        '1.5 7 cuGetProcAddress_v2(symbol="cuMemAlloc", pfn=[0x7f], cudaVersion=2000, flags=0) = 0',
        '1.6 7 cuGetProcAddress_v2(symbol="cuMemAlloc", pfn=[0x7f], cudaVersion=3020, flags=0) = 0',
        '1.7 7 cuGetProcAddress_v2(symbol="cuNew", pfn=[(nil)], cudaVersion=13000, flags=0) = 500',
        '1.8 7 cuGetProcAddress(symbol="cuOld", pfn=[0x7f], cudaVersion=3000, flags=0) = 0 9 ns',
        "1.9 7 cuInit(Flags=0) = 0 7 ns",
    )
    named = look_ups.read_trace(lines)
    assert named == {"cuMemAlloc": 3020, "cuNew": 13000, "cuOld": 3000}
    functions = [
        Function("cuMemAlloc", "cuMemAlloc", 2000, "", "", ()),
        Function("cuMemAlloc", "cuMemAlloc_v2", 3020, "", "sync", ()),
        Function("cuOld", "cuOld", 2000, "", "", ()),
        Function("cuOld", "cuOld_v2", 4000, "", "local", ()),
    ]
    assert look_ups.find_unsupported(named, functions) == ("cuNew", "cuOld")


@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
def test_a_record_pins_what_it_names(client) -> None:
    tag = client.repository.tag if client.repository else ""
    assert any(package.endswith(f"=={client.version}") for package in client.packages) or (
        client.version in tag
    ), "the client itself is pinned: its package, or the tag of its sources"
    assert client.tests
    assert not client.folder.is_absolute()
