"""The setting of the checks: waits, the report's lines, and a DRA driver's pools and claims."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kubelet_conformance import dra, plugin
from kubelet_conformance.api_server import ApiServer
from kubelet_conformance.dra import Claim, Place
from kubelet_conformance.plugin import DraSetting, Setting
from kubelet_conformance.resource import Refusal


class Config:
    """The part of pytest's config that the plugin reads."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.stash: dict[Any, Any] = {}
        self.args = ["elsewhere"]
        self.args_source = pytest.Config.ArgsSource.TESTPATHS

    def getoption(self, name: str) -> Any:
        return self.options.get(name.removeprefix("--kubelet-conformance-"), "")


class Process:
    starts = 0

    def keep_alive(self) -> None:
        self.starts += 1


def setting_of(wanted: tuple[str, ...] = (), timeout_s: float = 5.0, **options: Any) -> Any:
    resources: dict[str, Any] = {}
    kubelet: Any = SimpleNamespace(
        resources=lambda: resources, drivers=dict, refused=["a reason"], found=resources
    )
    process: Any = Process()
    config: Any = Config(**options)
    return Setting(kubelet, process, timeout_s, frozenset(wanted), config)


def resource(*healthy: str) -> Any:
    return SimpleNamespace(healthy=lambda: list(healthy))


@pytest.mark.parametrize(
    ("wanted", "there", "serves"),
    [
        ((), {}, False),
        ((), {"a": ()}, False),
        ((), {"a": ("0",)}, True),
        (("a",), {"a": ("0",)}, True),
        (("a",), {"a": ("0",), "b": ("0",)}, True),
        (("a",), {"b": ("0",)}, False),
        (("a", "b"), {"a": ("0",), "b": ()}, False),
        (("a", "b"), {"a": ("0",), "b": ("1",)}, True),
    ],
)
def test_it_serves_when_each_resource_that_is_waited_for_has_a_device(
    wanted: tuple[str, ...], there: dict[str, tuple[str, ...]], serves: bool
) -> None:
    setting = setting_of(wanted)
    setting.kubelet.found.update({name: resource(*ids) for name, ids in there.items()})
    assert setting.serves() is serves


def test_waiting_keeps_the_process_alive_until_it_comes_true_or_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    now = [100.0]

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(plugin.time, "sleep", sleep)
    monkeypatch.setattr(plugin.time, "monotonic", lambda: now[0])
    setting = setting_of(timeout_s=1.0)
    assert setting.wait(lambda: True)
    assert (setting.process.starts, pauses) == (0, [])
    assert setting.wait(lambda: setting.process.starts == 3)
    assert pauses == [0.1] * 3
    now[0] = 100.0
    pauses.clear()
    assert not setting.wait(lambda: False)
    assert 10 <= len(pauses) <= 11


def test_a_failed_wait_is_not_repeated() -> None:
    setting = setting_of()
    setting.expect(lambda: True, lambda: "never said")
    with pytest.raises(AssertionError, match=r"^no list \(refused: \['a reason'\]\)"):
        setting.expect(lambda: False, lambda: "no list")
    came: list[None] = []
    with pytest.raises(AssertionError, match=r"^no list"):
        setting.expect(lambda: bool(came.append(None)), lambda: "another")
    assert not came
    assert len(setting.failures) == 1


def test_a_user_s_command_is_run_if_there_is_one(tmp_path: Path) -> None:
    assert not setting_of().run_option("break")
    setting = setting_of(**{"break": f"echo x > {tmp_path}/broken && true", "mend": "false"})
    assert setting.run_option("break")
    assert (tmp_path / "broken").read_text() == "x\n"
    with pytest.raises(plugin.subprocess.CalledProcessError):
        setting.run_option("mend")


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({}, ["elsewhere"]),
        ({"plugin": "p"}, ["test_device_plugin.py", "test_restarts.py"]),
        ({"driver": "d"}, ["test_dra.py"]),
        (
            {"plugin": "p", "driver": "d"},
            ["test_device_plugin.py", "test_restarts.py", "test_dra.py"],
        ),
    ],
)
def test_the_checks_for_the_given_option_run(
    options: dict[str, str], files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_CONFIG", [])
    config: Any = Config(**options)
    plugin.pytest_configure(config)
    assert [Path(one).name for one in config.args] == files
    assert (plugin._RESULTS in config.stash) is bool(options)
    named: Any = Config(**options)
    named.args_source = pytest.Config.ArgsSource.ARGS
    plugin.pytest_configure(named)
    assert named.args == ["elsewhere"]


def report(check: str, when: str, outcome: str, longrepr: Any = None) -> Any:
    return SimpleNamespace(
        nodeid=f"suite/file.py::{check}",
        when=when,
        outcome=outcome,
        longrepr=longrepr,
        skipped=outcome == "skipped",
        failed=outcome == "failed",
    )


def test_the_report_has_each_check_once_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_CONFIG", [])
    plugin.pytest_runtest_logreport(report("ignored", "call", "passed"))
    config: Any = Config(plugin="p", report=str(tmp_path / "report.json"))
    plugin.pytest_configure(config)
    crash = SimpleNamespace(reprcrash=SimpleNamespace(message="AssertionError: a\nb"))
    for each in (
        *(report("good", when, "passed") for when in ("setup", "call", "teardown")),
        report("skipped", "setup", "skipped", ("file", 3, "Skipped: not offered")),
        report("known", "call", "skipped", "reason in words"),
        report("bad", "call", "failed", crash),
        report("early", "setup", "failed", "a plain text\nand more"),
        report("late", "teardown", "failed", crash),
    ):
        plugin.pytest_runtest_logreport(each)
    session: Any = SimpleNamespace(config=config)
    plugin.pytest_sessionfinish(session)
    written = json.loads((tmp_path / "report.json").read_text())["results"]
    assert [tuple(one.values()) for one in written] == [
        ("good", "passed", ""),
        ("skipped", "skipped", "not offered"),
        ("known", "skipped", ""),
        ("bad", "failed", "a"),
        ("early", "failed", "a plain text"),
        ("late", "failed", "a"),
    ]


def test_no_report_is_written_unless_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_CONFIG", [])
    monkeypatch.chdir(tmp_path)
    for config in (Config(plugin="p"), Config(report="never.json")):
        both: Any = SimpleNamespace(config=config)
        plugin.pytest_configure(both.config)
        plugin.pytest_sessionfinish(both)
    assert list(tmp_path.iterdir()) == []


def part(pool: str, generation: int, of: int, *devices: str, **more: Any) -> dict[str, Any]:
    named = [{"name": name, **more} for name in devices]
    head = {"name": pool, "generation": generation, "resourceSliceCount": of}
    return {"spec": {"driver": "d", "pool": head, "devices": named}}


@pytest.mark.parametrize(
    ("found", "is_complete"),
    [
        ([], False),
        ([part("a", 1, 1)], True),
        ([part("a", 1, 2)], False),
        ([part("a", 1, 2), part("a", 1, 2)], True),
        ([part("a", 1, 1), part("a", 1, 1)], False),
        ([part("a", 1, 2), part("a", 1, 2), part("a", 2, 1)], True),
        ([part("a", 1, 1), part("a", 2, 2)], False),
        ([part("a", 1, 1), part("b", 1, 2)], False),
        ([part("b", 1, 2), part("a", 1, 1)], False),
        ([part("a", 1, 1), part("b", 5, 1)], True),
    ],
)
def test_pools_are_complete_when_each_has_all_of_its_newest_generation(
    found: list[dict[str, Any]], is_complete: bool
) -> None:
    assert dra.is_complete(found) is is_complete


def test_a_claim_can_be_allocated_devices_without_taints() -> None:
    found = [
        part("a", 1, 1, "x", "y"),
        part("b", 1, 1, "z", taints=[{"key": "sick"}]),
        {"spec": {"pool": {"name": "c"}}},
        part("b", 1, 1, "w", taints=[]),
    ]
    assert dra.places(found) == [Place("a", "x"), Place("a", "y"), Place("b", "w")]


def test_a_claim_is_allocated_in_full_and_freed() -> None:
    with ApiServer() as api:
        first = dra.allocate(api, "d", Place("pool", "dev"))
        second = dra.allocate(api, "d", Place("pool", "dev"))
        assert first.name != second.name
        assert first.uid != second.uid
        made = api.get(dra.CLAIMS, first.name, dra.NAMESPACE)
        assert made is not None
        assert made["metadata"]["uid"] == first.uid
        result = {"request": "one", "driver": "d", "pool": "pool", "device": "dev"}
        assert made["status"]["allocation"] == {"devices": {"results": [result]}}
        (requested,) = made["spec"]["devices"]["requests"]
        assert (requested["name"], requested["exactly"]["count"]) == (first.request, 1)
        (pod,) = made["status"]["reservedFor"]
        assert (pod["resource"], pod["name"]) == ("pods", "conformance")
        message = first.message()
        assert (message.namespace, message.name, message.uid) == (
            dra.NAMESPACE,
            first.name,
            first.uid,
        )
        dra.free(api, first)
        assert [one["metadata"]["name"] for one in api.all(dra.CLAIMS)] == [second.name]


def test_slices_are_of_one_driver() -> None:
    with ApiServer() as api:
        for name, driver in (("a", "d"), ("b", "e")):
            api.put(dra.SLICES, {"metadata": {"name": name}, "spec": {"driver": driver}})
        assert [one["metadata"]["name"] for one in dra.slices(api, "e")] == ["b"]


def test_a_driver_answers_when_it_does_and_has_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[Any] = []

    def prepare(driver: Any, *claims: Claim) -> dict[str, Any]:
        requested.append(driver)
        if driver == "refuses":
            raise Refusal("UNAVAILABLE", "not yet")
        return {}

    monkeypatch.setattr(dra, "prepare", prepare)
    setting = setting_of()
    monkeypatch.setattr(Setting, "wait", lambda _, condition: condition())
    with ApiServer() as api:
        drivers: dict[str, str] = {}
        setting.kubelet.drivers = lambda: drivers
        subject = DraSetting(setting, api)
        assert subject.wait_until_answers() is False
        drivers["d"] = "refuses"
        assert subject.wait_until_answers() is False
        drivers["d"] = "answers"
        assert subject.wait_until_answers() is False, "no devices"
        api.put(dra.SLICES, {"metadata": {"name": "a"}, **part("p", 1, 2, "x")})
        assert subject.places() == []
        assert subject.wait_until_answers() is False, "half of the devices"
        api.put(dra.SLICES, {"metadata": {"name": "b"}, **part("p", 1, 2, "y")})
        assert subject.places() == [Place("p", "x"), Place("p", "y")]
        assert subject.wait_until_answers() is True
    assert requested == ["refuses", *["answers"] * 3]
