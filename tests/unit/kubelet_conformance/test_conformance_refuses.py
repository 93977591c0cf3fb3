"""Each check passes a subject that keeps its rule, and fails one that breaks only that rule."""

from types import SimpleNamespace
from typing import Any

import pytest

from device_plugin.proto import deviceplugin_pb2 as pb, dra_pb2
from kubelet_conformance.dra import Claim, Place
from kubelet_conformance.resource import Refusal
from kubelet_conformance.suite import test_device_plugin as plugin_checks, test_dra as dra_checks

NVIDIA = "example.com/gpu="


class Plugin:
    """One resource of a plugin that keeps every rule, with the methods that the suite calls."""

    name, ended = "example.com/gpu", False

    def __init__(self) -> None:
        self.options = pb.DevicePluginOptions(get_preferred_allocation_available=True)
        self.registered_options = self.options
        self.lists = [(self.device("gpu-0"), self.device("gpu-1", 1))]

    @staticmethod
    def device(name: str, node: int = 0, health: str = "Healthy") -> pb.Device:
        return pb.Device(
            ID=name, health=health, topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
        )

    def devices(self) -> dict[str, str]:
        return {one.ID: one.health for one in self.lists[-1]}

    def healthy(self) -> list[str]:
        return sorted(self.devices())

    def first_list_again(self, within_s: float) -> dict[str, str]:
        return self.devices()

    def answer(self, name: str) -> pb.ContainerAllocateResponse:
        return pb.ContainerAllocateResponse(
            envs={"GPU": name},
            mounts=[pb.Mount(container_path="/lib/gpu", host_path="/lib/gpu")],
            devices=[pb.DeviceSpec(container_path="/dev/g", host_path="/dev/g", permissions="rw")],
            cdi_devices=[pb.CDIDevice(name=NVIDIA + name)],
        )

    def allocate(self, *containers: list[str]) -> list[pb.ContainerAllocateResponse]:
        if any(name not in self.devices() for ids in containers for name in ids):
            raise Refusal("NOT_FOUND", "no such device")
        return [self.answer(ids[0]) for ids in containers]

    def prefer(self, available: list[str], must: list[str], size: int) -> list[str]:
        rest = [name for name in available if name not in must]
        return [*must, *rest][:size]


def make_changed_plugin(**fields: Any) -> Any:
    """Return a plugin whose answers to Allocate have other fields."""

    class Changed(Plugin):
        def answer(self, name: str) -> pb.ContainerAllocateResponse:
            right = super().answer(name)
            for field, value in fields.items():
                right.ClearField(field)
                if isinstance(value, dict):
                    getattr(right, field).update(value)
                else:
                    getattr(right, field).extend(value)
            return right

    return Changed


def listing(*devices: pb.Device) -> Any:
    return type("Listing", (Plugin,), {"lists": property(lambda _: [devices], lambda *_: None)})


def with_method(name: str, method: Any) -> Any:
    return type("Other", (Plugin,), {name: method})


ROOT = {"container_path": "/dev/g", "host_path": "/dev/g"}
ONE = Plugin.device("gpu-0")
KEEPS = [
    *("list", "options", "second_stream", "allocate", "allocate_containers"),
    *("allocate_again", "allocate_unknown", "preferred"),
]
BREAKS = {
    "options differ": (
        "options",
        with_method(
            "registered_options",
            property(lambda _: pb.DevicePluginOptions(pre_start_required=True), lambda *_: None),
        ),
    ),
    "the same id twice": ("list", listing(ONE, ONE)),
    "an empty id": ("list", listing(Plugin.device(""))),
    "64 characters": ("list", listing(Plugin.device("g" * 64))),
    "unknown health": ("list", listing(Plugin.device("gpu-0", health="Ill"))),
    "NUMA node -1": ("list", listing(Plugin.device("gpu-0", -1))),
    "another list": ("second_stream", with_method("first_list_again", lambda *_: {})),
    "the first stream ends": ("second_stream", with_method("ended", True)),
    "two answers": (
        "allocate",
        with_method("allocate", lambda self, *ids: [self.answer("gpu-0")] * 2),
    ),
    "nothing comes": (
        "allocate",
        make_changed_plugin(envs={}, mounts=[], devices=[], cdi_devices=[]),
    ),
    "a relative mount": (
        "allocate",
        make_changed_plugin(mounts=[pb.Mount(container_path="a", host_path="/")]),
    ),
    "a relative source": (
        "allocate",
        make_changed_plugin(mounts=[pb.Mount(container_path="/a", host_path="b")]),
    ),
    "a relative device": (
        "allocate",
        make_changed_plugin(
            devices=[pb.DeviceSpec(**{**ROOT, "host_path": "dev/g"}, permissions="r")]
        ),
    ),
    "no permissions": ("allocate", make_changed_plugin(devices=[pb.DeviceSpec(**ROOT)])),
    "other permissions": (
        "allocate",
        make_changed_plugin(devices=[pb.DeviceSpec(**ROOT, permissions="rx")]),
    ),
    "no CDI name": ("allocate", make_changed_plugin(cdi_devices=[pb.CDIDevice(name="gpu-0")])),
    "one answer for two": (
        "allocate_containers",
        with_method("allocate", lambda self, *ids: [self.answer(ids[0][0])]),
    ),
    "the first device twice": (
        "allocate_containers",
        with_method("allocate", lambda self, *ids: [self.answer(ids[0][0]) for _ in ids]),
    ),
    "unknown is given": (
        "allocate_unknown",
        with_method("allocate", lambda self, *ids: [self.answer(one[0]) for one in ids]),
    ),
    "too few preferred": ("preferred", with_method("prefer", lambda _, there, must, n: there[:1])),
    "one twice": ("preferred", with_method("prefer", lambda _, there, must, n: there[-1:] * n)),
    "not available": ("preferred", with_method("prefer", lambda *a: ["gpu-9", "gpu-8"][: a[-1]])),
    "without what must be": ("preferred", with_method("prefer", lambda _, there, m, n: there[:n])),
}


class FollowedResource(Plugin):
    """A plugin whose lists are set by a test, and which records its calls."""

    def __init__(self, lists: tuple[dict[str, str], ...] = ({"a": "Healthy"},)) -> None:
        super().__init__()
        self.sent = list(lists)
        self.started: list[list[str]] = []
        self.options.pre_start_required = True

    @property
    def lists(self) -> Any:
        return [tuple(self.device(n, 0, h) for n, h in one.items()) for one in self.sent]

    @lists.setter
    def lists(self, value: Any) -> None:
        pass

    def healthy(self) -> list[str]:
        return sorted(name for name, health in self.devices().items() if health == "Healthy")

    def pre_start(self, ids: list[str]) -> None:
        self.started.append(ids)


class FakeSetting:
    """A setting with fake plugins; a test provides its commands."""

    timeout_s = 1.0

    def __init__(self, *plugins: Any, **commands: Any) -> None:
        self.plugins = {f"r{number}": one for number, one in enumerate(plugins)}
        self.commands = commands
        self.kubelet = SimpleNamespace(
            resources=lambda: self.plugins, refused=[], refuse_lists=False, held={}
        )

    def run_option(self, name: str) -> bool:
        if command := self.commands.get(name):
            command()
        return bool(command)

    @staticmethod
    def wait(condition: Any) -> bool:
        return bool(condition())


def run_check(name: str, subject: FakeSetting) -> None:
    getattr(plugin_checks, f"test_{name}")(subject)


def refused_by(name: str, subject: FakeSetting) -> None:
    with pytest.raises(AssertionError):
        run_check(name, subject)


def test_registers_fails_without_a_registration_or_after_a_refused_one() -> None:
    run_check("registers", FakeSetting(Plugin()))
    refused_by("registers", FakeSetting())
    subject = FakeSetting(Plugin())
    subject.kubelet.refused.append("version v2")
    refused_by("registers", subject)


def test_options_are_compared_where_register_had_some() -> None:
    found, silent = Plugin(), Plugin()
    silent.registered_options = None
    run_check("options", FakeSetting(found, silent))
    with pytest.raises(pytest.skip.Exception):
        run_check("options", FakeSetting(silent))


def test_pre_start_is_called_only_if_requested() -> None:
    requesting, does_not = FollowedResource(), FollowedResource()
    does_not.options.pre_start_required = False
    run_check("pre_start", FakeSetting(requesting, does_not))
    assert (requesting.started, does_not.started) == ([["a"]], [])
    with pytest.raises(pytest.skip.Exception):
        run_check("pre_start", FakeSetting(does_not))


@pytest.mark.parametrize("name", ["preferred", "allocate_containers"])
def test_an_option_that_is_not_offered_is_skipped(name: str) -> None:
    one = FollowedResource()
    one.options.get_preferred_allocation_available = False
    with pytest.raises(pytest.skip.Exception):
        run_check(name, FakeSetting(one))


def test_sixteen_devices_of_a_resource_are_tried() -> None:
    ids = [f"g{number:02}" for number in range(20)]
    plugin = FollowedResource((dict.fromkeys(ids, "Healthy"),))
    requested: list[Any] = []
    plugin.allocate = lambda *given: [requested.append(given), plugin.answer("g")][1:]
    run_check("allocate", FakeSetting(plugin))
    assert requested == [([name],) for name in ids[:16]]
    sizes: list[int] = []

    def prefer(there: list[str], must: list[str], size: int) -> list[str]:
        sizes.append(size)
        return [*must, *(name for name in there if name not in must)][:size]

    plugin.prefer = prefer
    run_check("preferred", FakeSetting(plugin))
    assert sorted(set(sizes)) == list(range(1, 17))


def test_a_held_device_stays_listed_also_while_the_kubelet_refuses_lists() -> None:
    for leaves, passes in ((False, True), (True, False)):
        plugin = FollowedResource(({"a": "Healthy", "b": "Healthy"},))
        subject = FakeSetting(plugin)
        seen: list[Any] = []

        def again(within_s: float, subject=subject, seen=seen, leaves=leaves) -> dict[str, str]:
            seen.append((subject.kubelet.refuse_lists, subject.kubelet.held))
            return {"b": "Healthy"} if leaves else {"a": "Healthy", "b": "Healthy"}

        plugin.first_list_again = again
        if passes:
            run_check("pod_resources", subject)
        else:
            refused_by("pod_resources", subject)
        assert seen == [(True, {"example.com/gpu": ["a"]})]
        assert (subject.kubelet.refuse_lists, subject.kubelet.held) == (False, {})


WELL, SICK = {"a": "Healthy", "b": "Healthy"}, {"a": "Unhealthy", "b": "Healthy"}


@pytest.mark.parametrize(
    ("sent", "passes"),
    [
        ([SICK], True),
        ([SICK, WELL], True),
        ([WELL], False),
        ([], False),
        ([{"a": "Unhealthy"}], False),
        ([SICK, {"b": "Healthy"}], False),
    ],
)
def test_a_device_that_breaks_is_sent_as_unhealthy(
    sent: list[dict[str, str]], passes: bool
) -> None:
    # it was unhealthy before the command, which does not count
    plugin = FollowedResource((SICK, WELL))
    plugin.name = "one"
    subject = FakeSetting(plugin, FollowedResource(), **{"break": lambda: plugin.sent.extend(sent)})
    if passes:
        run_check("health", subject)
    else:
        refused_by("health", subject)


def test_a_recovered_device_is_sent_as_healthy() -> None:
    plugin = FollowedResource((SICK,))
    run_check("health_recovered", FakeSetting(plugin, mend=lambda: plugin.sent.append(WELL)))
    refused_by("health_recovered", FakeSetting(plugin, mend=lambda: plugin.sent.append(SICK)))
    refused_by("health_recovered", FakeSetting(FollowedResource(), plugin, mend=lambda: None))
    for name in ("health", "health_recovered"):
        with pytest.raises(pytest.skip.Exception):
            run_check(name, FakeSetting(plugin))


def check(name: str, resource: Any) -> None:
    kubelet = SimpleNamespace(resources=lambda: {"r": resource}, refused=[])
    getattr(plugin_checks, f"test_{name}")(SimpleNamespace(kubelet=kubelet, timeout_s=1.0))


@pytest.mark.parametrize("name", KEEPS)
def test_a_plugin_that_keeps_every_rule_passes(name: str) -> None:
    check(name, Plugin())
    check("list", listing(Plugin.device("g" * 63), Plugin.device("h", health="Unhealthy"))())


@pytest.mark.parametrize(("name", "plugin"), BREAKS.values(), ids=BREAKS)
def test_a_plugin_that_breaks_one_rule_is_refused(name: str, plugin: Any) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(name, plugin())


class Driver:
    """A DRA driver that keeps every rule; the suite's ``dra`` module calls it directly."""

    def __init__(self, **breaks: bool) -> None:
        self.breaks, self.ready, self.claims = breaks, {}, {}

    def allocate(self, api: Any, driver: str, place: Place) -> Claim:
        claim = Claim(f"c{len(self.claims)}", f"u{len(self.claims)}")
        self.claims[claim.uid] = (claim.name, place.device)
        return claim

    def free(self, api: Any, claim: Claim) -> None:
        self.claims.pop(claim.uid, None)

    def prepare(self, driver: Any, *claims: Claim) -> dict[str, Any]:
        return {claim.uid: self._prepared(claim) for claim in claims}

    def _prepared(self, claim: Claim) -> dra_pb2.NodePrepareResourceResponse:
        _, device = self.claims.get(claim.uid, ("", ""))
        if self.breaks.get("by_name") and not device:
            device = next((d for n, d in self.claims.values() if n == claim.name), "")
        if self.breaks.get("makes_up") and not device:
            device = "gpu-0"
        if not device or (device == "no-such-device" and not self.breaks.get("gives_unknown")):
            return dra_pb2.NodePrepareResourceResponse(error="no such claim or device")
        self.ready[claim.uid] = self.ready.get(claim.uid, 0) + 1
        if self.breaks.get("other_device"):
            device = "gpu-1" if device == "gpu-0" else "gpu-0"
        count = self.ready[claim.uid] if self.breaks.get("grows") else 1
        cdi = "gpu" if self.breaks.get("no_cdi_name") else NVIDIA + device
        request = "two" if self.breaks.get("other_request") else "one"
        one = dra_pb2.Device(
            pool_name="node", device_name=device, cdi_device_ids=[cdi], request_names=[request]
        )
        return dra_pb2.NodePrepareResourceResponse(devices=[one] * count)

    def unprepare(self, driver: Any, *claims: Claim) -> dict[str, Any]:
        answers = {}
        for claim in claims[: 1 if self.breaks.get("answers_first") else None]:
            known = self.ready.pop(claim.uid, None) is not None or claim.uid in self.claims
            refuses = self.breaks.get("refuses_unknown") and not known and claim.name == "never"
            twice = self.breaks.get("refuses_twice") and not known and claim.name != "never"
            error = "not prepared" if refuses or twice else ""
            answers[claim.uid] = dra_pb2.NodeUnprepareResourceResponse(error=error)
        return answers


DRA = [
    *("prepare", "prepare_again", "unprepare_again", "several", "unknown_device", "no_claim"),
    "another_claim_of_that_name",
]


def dra_check(monkeypatch: pytest.MonkeyPatch, name: str, driver: Driver) -> None:
    for call in ("allocate", "free", "prepare", "unprepare"):
        monkeypatch.setattr(dra_checks.dra, call, getattr(driver, call))
    kubelet = SimpleNamespace(drivers=lambda: {"d": SimpleNamespace(name="d")})
    places = [Place("node", "gpu-0"), Place("node", "gpu-1")]
    published = SimpleNamespace(
        api=None, setting=SimpleNamespace(kubelet=kubelet), places=lambda: places
    )
    getattr(dra_checks, f"test_dra_{name}")(published)


@pytest.mark.parametrize("name", DRA)
def test_a_driver_that_keeps_every_rule_passes(monkeypatch, name: str) -> None:
    dra_check(monkeypatch, name, Driver())


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        ("prepare", "other_device"),
        ("prepare", "other_request"),
        ("prepare", "no_cdi_name"),
        ("prepare_again", "grows"),
        ("unprepare_again", "refuses_unknown"),
        ("unprepare_again", "refuses_twice"),
        ("several", "other_device"),
        ("several", "answers_first"),
        ("unknown_device", "gives_unknown"),
        ("no_claim", "makes_up"),
        ("another_claim_of_that_name", "by_name"),
    ],
)
def test_a_driver_that_breaks_one_rule_is_refused(monkeypatch, name: str, breaks: str) -> None:
    with pytest.raises(AssertionError):
        dra_check(monkeypatch, name, Driver(**{breaks: True}))
