"""The checks of restarts: a subject that keeps a rule passes, and one that breaks it fails."""

from types import SimpleNamespace
from typing import Any

import pytest

from device_plugin.proto import dra_pb2
from kubelet_conformance.dra import Claim, Place
from kubelet_conformance.suite import test_dra as dra_checks, test_restarts as checks


class Lives:
    """A plugin and a kubelet, each up or down; ``breaks`` names the only broken rule."""

    timeout_s = 1.0
    starts, log, age_s = 1, "", 100.0

    def __init__(self, socket: Any, breaks: str = "") -> None:
        self.breaks = breaks
        self.done: list[str] = []
        self.up = {"kubelet", "plugin"}
        self.kubelet = SimpleNamespace(
            start=self._kubelet_starts,
            stop=lambda: self._down("kubelet"),
            resources=self.resources,
            drivers=self.drivers,
            wait=lambda condition, _: condition(self.kubelet),
            device_plugins=socket.parent,
            refused=[],
        )
        self.process = self

    def resources(self) -> dict[str, Any]:
        there = self.up >= {"kubelet", "plugin"}
        devices = {"a": "Healthy"} if there else {}
        if there and self.done and self.breaks == "other devices":
            devices = {"b": "Healthy"}
        gone = there and self.done and self.breaks == "not again"
        one = SimpleNamespace(devices=lambda: devices, wait=lambda ended, _: ended(self))
        none = SimpleNamespace(devices=dict, wait=lambda *_: True)
        return {} if gone else {"r": one, "none": none}

    @property
    def ended(self) -> bool:
        """Return whether the plugin's stream has ended."""
        return "plugin" not in self.up and self.breaks != "stream stays"

    def drivers(self) -> dict[str, Any]:
        there = self.up >= {"kubelet", "plugin"} or self.breaks == "socket stays"
        return {"d": SimpleNamespace(name="d", versions=["v1.DRAPlugin"])} if there else {}

    def _down(self, side: str) -> None:
        self.done.append(f"{side} down")
        self.up.discard(side)

    def _kubelet_starts(self) -> None:
        self.done.append("kubelet up")
        self.up.add("kubelet")

    def start(self) -> None:
        self.done.append("plugin up")
        self.up.add("plugin")

    def kill(self) -> None:
        self._down("plugin")

    def terminate(self) -> bool:
        self._down("plugin")
        return self.breaks != "does not end"

    def wait(self, condition: Any) -> bool:
        return bool(condition())


PLUGIN = {
    "kubelet_restart": ["kubelet down", "kubelet up"],
    "plugin_terminated": ["plugin down", "plugin up"],
    "plugin_killed": ["plugin down", "plugin up"],
    "plugin_before_kubelet": ["plugin down", "kubelet down", "plugin up", "kubelet up"],
}


@pytest.fixture
def socket(tmp_path: Any) -> Any:
    return tmp_path / "kubelet.sock"


@pytest.mark.parametrize("name", PLUGIN)
def test_a_plugin_that_comes_back_as_it_was_passes(name: str, socket: Any) -> None:
    socket.touch()
    lives = Lives(socket)
    getattr(checks, f"test_{name}")(lives)
    assert lives.done == PLUGIN[name]
    assert socket.exists() == (name != "plugin_before_kubelet")


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        *((name, breaks) for name in PLUGIN for breaks in ("other devices", "not again")),
        ("plugin_terminated", "does not end"),
        ("plugin_terminated", "stream stays"),
    ],
)
def test_a_plugin_that_does_not_is_refused(name: str, breaks: str, socket: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(checks, f"test_{name}")(Lives(socket, breaks))


def test_resources_without_devices_are_none(socket: Any) -> None:
    assert checks.ids(Lives(socket)) == {"r": {"a"}}


class Published:
    """A DRA driver with one device, and the kubelet and restarts of ``Lives``."""

    api = None

    def __init__(self, socket: Any, breaks: str = "") -> None:
        self.setting = Lives(socket, breaks)

    @property
    def driver(self) -> Any:
        return self.setting

    def places(self) -> list[Place]:
        return [Place("node", "gpu-0")]

    def wait_until_answers(self) -> bool:
        return self.setting.up >= {"kubelet", "plugin"} and self.setting.breaks != "not again"

    def prepare(self, driver: Any, *claims: Claim) -> dict[str, Any]:
        name = "other" if self.setting.done and self.setting.breaks == "forgets" else "gpu-0"
        device = dra_pb2.Device(pool_name="node", device_name=name)
        return {one.uid: dra_pb2.NodePrepareResourceResponse(devices=[device]) for one in claims}

    def unprepare(self, driver: Any, *claims: Claim) -> dict[str, Any]:
        error = "unknown claim" if self.setting.breaks == "keeps" else ""
        return {one.uid: dra_pb2.NodeUnprepareResourceResponse(error=error) for one in claims}


DRIVER = {
    "driver_restart": ["plugin down", "plugin up"],
    "kubelet_restart": ["kubelet down", "kubelet up"],
    "terminated": ["plugin down", "plugin up"],
}


def run_check(monkeypatch: pytest.MonkeyPatch, name: str, published: Any) -> None:
    freed: list[Claim] = []
    monkeypatch.setattr(dra_checks.dra, "allocate", lambda *_: Claim("c", "u"))
    monkeypatch.setattr(dra_checks.dra, "free", lambda _, claim: freed.append(claim))
    monkeypatch.setattr(dra_checks.dra, "prepare", published.prepare)
    monkeypatch.setattr(dra_checks.dra, "unprepare", published.unprepare)
    getattr(dra_checks, f"test_dra_{name}")(published)
    assert freed == ([] if name == "terminated" else [Claim("c", "u")])


@pytest.mark.parametrize("name", DRIVER)
def test_a_driver_that_comes_back_as_it_was_passes(
    monkeypatch: pytest.MonkeyPatch, name: str, socket: Any
) -> None:
    published = Published(socket)
    run_check(monkeypatch, name, published)
    assert published.setting.done == DRIVER[name]


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        *((name, "not again") for name in DRIVER),
        *((name, breaks) for name in list(DRIVER)[:2] for breaks in ("forgets", "keeps")),
        ("terminated", "does not end"),
        ("terminated", "socket stays"),
    ],
)
def test_a_driver_that_does_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, breaks: str, socket: Any
) -> None:
    with pytest.raises(AssertionError):
        run_check(monkeypatch, name, Published(socket, breaks))


def test_a_driver_that_is_young_is_not_ended_yet(
    monkeypatch: pytest.MonkeyPatch, socket: Any
) -> None:
    waited: list[bool] = []
    for age_s in (0.0, 5.0, 5.1):
        published = Published(socket)
        published.setting.age_s = age_s
        published.setting.wait = lambda condition: waited.append(condition()) or True
        run_check(monkeypatch, "terminated", published)
    assert waited == [False, False, True]


def publication(**device: Any) -> Any:
    """Return the publication of one driver; ``device`` has the fields of its devices."""
    versions = device.pop("versions", ["v1.DRAPlugin"])
    names = device.pop("names", [("node", "gpu-0"), ("other", "gpu-0"), ("node", "gpu-1")])
    slices = [
        {"spec": {"pool": {"name": pool}, "devices": [{"name": name, **device}]}}
        for pool, name in names
    ]
    drivers = {"d": SimpleNamespace(name="d", versions=versions)}
    kubelet = SimpleNamespace(drivers=lambda: drivers, refused=device.pop("refused", []))
    return SimpleNamespace(setting=SimpleNamespace(kubelet=kubelet), api=slices)


@pytest.mark.parametrize(
    ("device", "passes"),
    [
        ({}, True),
        ({"names": [("node", "g" * 63)]}, True),
        ({"names": [("node", "g" * 64)]}, False),
        ({"names": [("node", "Gpu")]}, False),
        ({"names": [("node", "gpu-")]}, False),
        ({"names": [("node", "g"), ("node", "g")]}, False),
        ({"attributes": {"a": {"int": 1}, "b": {"strings": ["x"]}}}, True),
        ({"attributes": {"a": {}}}, False),
        ({"attributes": {"a": {"int": 1, "string": "x"}}}, False),
        ({"attributes": {"a": {"float": 1.0}}}, False),
    ],
)
def test_slices_are_as_the_api_server_would_have_them(
    monkeypatch: pytest.MonkeyPatch, device: dict[str, Any], passes: bool
) -> None:
    monkeypatch.setattr(dra_checks.dra, "slices", lambda api, driver: api)
    if passes:
        dra_checks.test_dra_slices(publication(**device))
    else:
        with pytest.raises(AssertionError):
            dra_checks.test_dra_slices(publication(**device))


@pytest.mark.parametrize(("count", "passes"), [(128, True), (129, False)])
def test_a_slice_has_128_devices_at_most(
    monkeypatch: pytest.MonkeyPatch, count: int, passes: bool
) -> None:
    devices = [{"name": f"g{number}"} for number in range(count)]
    found = [
        {"spec": {"pool": {"name": "node"}, "devices": devices}},
        {"spec": {"pool": {"name": "n"}}},
    ]
    monkeypatch.setattr(dra_checks.dra, "slices", lambda *_: found)
    if passes:
        dra_checks.test_dra_slices(publication())
    else:
        with pytest.raises(AssertionError):
            dra_checks.test_dra_slices(publication())


def test_a_driver_registers_with_the_service_and_unrefused() -> None:
    dra_checks.test_dra_registers(publication(versions=["v1beta1.DRAPlugin", "v1.DRAPlugin"]))
    for wrong in (publication(versions=["v1beta1.DRAPlugin"]), publication(refused=["a reason"])):
        with pytest.raises(AssertionError):
            dra_checks.test_dra_registers(wrong)


def test_one_device_alone_shows_nothing_of_several(socket: Any) -> None:
    with pytest.raises(pytest.skip.Exception):
        dra_checks.test_dra_several(Published(socket))
