"""Device plugin API v1beta1."""

import re

import pytest

from kubelet_conformance.kubelet import MAX_DEVICE_ID
from kubelet_conformance.plugin import Setting
from kubelet_conformance.resource import HEALTHY, Refusal, Resource

MOST = 16
"""Number of devices per resource that are tried one by one."""
_CDI = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*=[A-Za-z0-9][A-Za-z0-9_.:-]*")
_HEALTH = {HEALTHY, "Unhealthy"}


def resources(serving_plugin: Setting) -> list[Resource]:
    """Return the registered resources, by name."""
    return [one for _, one in sorted(serving_plugin.kubelet.resources().items())]


def test_registers(serving_plugin: Setting) -> None:
    """The plugin registers, and the kubelet refuses none of its registrations."""
    assert serving_plugin.kubelet.resources()
    assert serving_plugin.kubelet.refused == []


def test_options(serving_plugin: Setting) -> None:
    """GetDevicePluginOptions returns the options that the plugin sent with Register."""
    found = [one for one in resources(serving_plugin) if one.registered_options is not None]
    if not found:
        pytest.skip("registered by its socket in plugins_registry: there is no Register call")
    for one in found:
        assert one.options == one.registered_options, one.name


def test_list(serving_plugin: Setting) -> None:
    """Device ids are unique and have at most 63 characters; health is a value of the API."""
    for one in resources(serving_plugin):
        for devices in one.lists:
            ids = [device.ID for device in devices]
            assert len(set(ids)) == len(ids), f"{one.name}: the same id twice"
            assert all(0 < len(each) <= MAX_DEVICE_ID for each in ids), f"{one.name}: {ids}"
            assert {device.health for device in devices} <= _HEALTH, one.name
            nodes = [node.ID for device in devices for node in device.topology.nodes]
            assert all(node >= 0 for node in nodes), f"{one.name}: NUMA nodes {nodes}"


def test_second_stream(serving_plugin: Setting) -> None:
    """A second ListAndWatch begins with the same list, and does not end the first."""
    for one in resources(serving_plugin):
        assert one.first_list_again(serving_plugin.timeout_s) == one.devices(), one.name
        assert not one.ended, f"{one.name}: the first stream ended"


def test_allocate(serving_plugin: Setting) -> None:
    """Allocate of a healthy device returns one well-formed, non-empty answer."""
    for one in resources(serving_plugin):
        for device in one.healthy()[:MOST]:
            answers = one.allocate([device])
            assert len(answers) == 1, f"{one.name}: {len(answers)} answers for one container"
            (got,) = answers
            parts = [got.envs, got.mounts, got.devices, got.annotations, got.cdi_devices]
            assert any(parts), f"{one.name}: nothing comes with {device}"
            paths = [path for m in got.mounts for path in (m.container_path, m.host_path)]
            paths += [path for d in got.devices for path in (d.container_path, d.host_path)]
            assert all(path.startswith("/") for path in paths), f"{one.name}: {paths}"
            rights = [each.permissions for each in got.devices]
            assert all(right and set(right) <= set("rwm") for right in rights), rights
            names = [each.name for each in got.cdi_devices]
            assert all(_CDI.fullmatch(name) for name in names), f"{one.name}: {names}"


def test_allocate_containers(serving_plugin: Setting) -> None:
    """Allocate for two containers returns two answers, each with its own device."""
    several = [one for one in resources(serving_plugin) if len(one.healthy()) > 1]
    if not several:
        pytest.skip("no resource has two healthy devices")
    for one in several:
        first, second = one.healthy()[:2]
        alone = [one.allocate([each])[0] for each in (first, second)]
        both = one.allocate([first], [second])
        assert len(both) == 2, f"{one.name}: {len(both)} answers for two containers"
        for got, expected in zip(both, alone, strict=True):
            assert got.envs == expected.envs, one.name
            assert list(got.devices) == list(expected.devices), one.name
            assert list(got.cdi_devices) == list(expected.cdi_devices), one.name


def test_allocate_again(serving_plugin: Setting) -> None:
    """If a pod is not admitted after Allocate, its device can be allocated again."""
    for one in resources(serving_plugin):
        device = one.healthy()[0]
        assert one.allocate([device])[0].envs == one.allocate([device])[0].envs, one.name


def test_allocate_unknown(serving_plugin: Setting) -> None:
    """Allocate of an unknown device is an error, and the plugin continues."""
    for one in resources(serving_plugin):
        with pytest.raises(Refusal):
            one.allocate(["no-such-device"])
        assert one.allocate(one.healthy()[:1]), (
            f"{one.name}: not registered any more after a bad request"
        )


def test_preferred(serving_plugin: Setting) -> None:
    """A preferred allocation has the requested number of devices, with all mandatory ones."""
    offering = [
        one for one in resources(serving_plugin) if one.options.get_preferred_allocation_available
    ]
    if not offering:
        pytest.skip("not offered")
    for one in offering:
        there = one.healthy()
        for size in range(1, min(len(there), MOST) + 1):
            got = one.prefer(there, [], size)
            assert len(set(got)) == len(got) == size, f"{one.name}: {got} for {size}"
            assert set(got) <= set(there), one.name
            must = there[-1:]
            assert must[0] in one.prefer(there, must, size), (
                f"{one.name}: the mandatory {must} is missing"
            )


def test_pre_start(serving_plugin: Setting) -> None:
    """If the plugin requires PreStartContainer, the call succeeds."""
    asking = [one for one in resources(serving_plugin) if one.options.pre_start_required]
    if not asking:
        pytest.skip("the plugin does not require it")
    for one in asking:
        one.pre_start(one.healthy()[:1])


def test_pod_resources(serving_plugin: Setting) -> None:
    """Devices that a pod holds stay in the list, even if the pod resources API fails."""
    kubelet = serving_plugin.kubelet
    before = {one.name: one.devices().keys() for one in resources(serving_plugin)}
    kubelet.held = {one.name: one.healthy()[:1] for one in resources(serving_plugin)}
    kubelet.refuse_lists = True
    try:
        for one in resources(serving_plugin):
            one.allocate(kubelet.held[one.name])
        for one in resources(serving_plugin):
            again = one.first_list_again(serving_plugin.timeout_s)
            assert again.keys() == before[one.name], one.name
    finally:
        kubelet.refuse_lists, kubelet.held = False, {}


def test_health(serving_plugin: Setting) -> None:
    """When a device breaks, the plugin reports it as Unhealthy and keeps it in the list."""
    before = {one.name: set(one.devices()) for one in resources(serving_plugin)}
    sent_before = {one.name: len(one.lists) for one in resources(serving_plugin)}
    if not serving_plugin.run_option("break"):
        pytest.skip("not tested: no --kubelet-conformance-break")

    def sick() -> bool:
        since = [
            device
            for one in resources(serving_plugin)
            for sent in one.lists[sent_before[one.name] :]
            for device in sent
        ]
        return any(device.health != HEALTHY for device in since)

    assert serving_plugin.wait(sick), "no device became unhealthy"
    for one in resources(serving_plugin):
        assert set(one.devices()) == before[one.name], (
            f"{one.name}: an unhealthy device left the list"
        )


def test_health_recovered(serving_plugin: Setting) -> None:
    """When a device works again, the plugin reports it as Healthy, without a restart."""
    if not serving_plugin.run_option("mend"):
        pytest.skip("not tested: no --kubelet-conformance-mend")

    def all_well() -> bool:
        return all(set(one.devices().values()) <= {HEALTHY} for one in resources(serving_plugin))

    assert serving_plugin.wait(all_well), "the device stays unhealthy"
