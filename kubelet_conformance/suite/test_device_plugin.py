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
    return [resource for _, resource in sorted(serving_plugin.kubelet.resources().items())]


def test_registers(serving_plugin: Setting) -> None:
    """The plugin registers, and the kubelet refuses none of its registrations."""
    assert serving_plugin.kubelet.resources()
    assert serving_plugin.kubelet.refused == []


def test_options(serving_plugin: Setting) -> None:
    """GetDevicePluginOptions returns the options that the plugin sent with Register."""
    registrants = [
        resource
        for resource in resources(serving_plugin)
        if resource.registered_options is not None
    ]
    if not registrants:
        pytest.skip("registered by its socket in plugins_registry: there is no Register call")
    for resource in registrants:
        assert resource.options == resource.registered_options, resource.name


def test_list(serving_plugin: Setting) -> None:
    """Device ids are unique and have at most 63 characters; health is a value of the API."""
    for resource in resources(serving_plugin):
        for devices in resource.lists:
            ids = [device.ID for device in devices]
            assert len(set(ids)) == len(ids), f"{resource.name}: the same id twice"
            assert all(0 < len(device_id) <= MAX_DEVICE_ID for device_id in ids), (
                f"{resource.name}: {ids}"
            )
            assert {device.health for device in devices} <= _HEALTH, resource.name
            nodes = [node.ID for device in devices for node in device.topology.nodes]
            assert all(node >= 0 for node in nodes), f"{resource.name}: NUMA nodes {nodes}"


def test_second_stream(serving_plugin: Setting) -> None:
    """A second ListAndWatch begins with the same list, and does not end the first."""
    for resource in resources(serving_plugin):
        assert resource.first_list_again(serving_plugin.timeout_s) == resource.devices(), (
            resource.name
        )
        assert not resource.ended, f"{resource.name}: the first stream ended"


def test_allocate(serving_plugin: Setting) -> None:
    """Allocate of a healthy device returns one well-formed, non-empty answer."""
    for resource in resources(serving_plugin):
        for device in resource.healthy()[:MOST]:
            answers = resource.allocate([device])
            assert len(answers) == 1, f"{resource.name}: {len(answers)} answers for one container"
            (answer,) = answers
            parts = [
                answer.envs,
                answer.mounts,
                answer.devices,
                answer.annotations,
                answer.cdi_devices,
            ]
            assert any(parts), f"{resource.name}: nothing comes with {device}"
            paths = [path for m in answer.mounts for path in (m.container_path, m.host_path)]
            paths += [path for d in answer.devices for path in (d.container_path, d.host_path)]
            assert all(path.startswith("/") for path in paths), f"{resource.name}: {paths}"
            rights = [device_node.permissions for device_node in answer.devices]
            assert all(right and set(right) <= set("rwm") for right in rights), rights
            names = [cdi_device.name for cdi_device in answer.cdi_devices]
            assert all(_CDI.fullmatch(name) for name in names), f"{resource.name}: {names}"


def test_allocate_containers(serving_plugin: Setting) -> None:
    """Allocate for two containers returns two answers, each with its own device."""
    several = [resource for resource in resources(serving_plugin) if len(resource.healthy()) > 1]
    if not several:
        pytest.skip("no resource has two healthy devices")
    for resource in several:
        first, second = resource.healthy()[:2]
        separate_answers = [resource.allocate([device])[0] for device in (first, second)]
        joint_answers = resource.allocate([first], [second])
        assert len(joint_answers) == 2, (
            f"{resource.name}: {len(joint_answers)} answers for two containers"
        )
        for answer, expected in zip(joint_answers, separate_answers, strict=True):
            assert answer.envs == expected.envs, resource.name
            assert list(answer.devices) == list(expected.devices), resource.name
            assert list(answer.cdi_devices) == list(expected.cdi_devices), resource.name


def test_allocate_again(serving_plugin: Setting) -> None:
    """If a pod is not admitted after Allocate, its device can be allocated again."""
    for resource in resources(serving_plugin):
        device = resource.healthy()[0]
        assert resource.allocate([device])[0].envs == resource.allocate([device])[0].envs, (
            resource.name
        )


def test_allocate_unknown(serving_plugin: Setting) -> None:
    """Allocate of an unknown device is an error, and the plugin continues."""
    for resource in resources(serving_plugin):
        with pytest.raises(Refusal):
            resource.allocate(["no-such-device"])
        assert resource.allocate(resource.healthy()[:1]), (
            f"{resource.name}: not registered any more after a bad request"
        )


def test_preferred(serving_plugin: Setting) -> None:
    """A preferred allocation has the requested number of devices, with all mandatory ones."""
    offering = [
        resource
        for resource in resources(serving_plugin)
        if resource.options.get_preferred_allocation_available
    ]
    if not offering:
        pytest.skip("not offered")
    for resource in offering:
        healthy_ids = resource.healthy()
        for size in range(1, min(len(healthy_ids), MOST) + 1):
            preferred_ids = resource.prefer(healthy_ids, [], size)
            assert len(set(preferred_ids)) == len(preferred_ids) == size, (
                f"{resource.name}: {preferred_ids} for {size}"
            )
            assert set(preferred_ids) <= set(healthy_ids), resource.name
            mandatory_ids = healthy_ids[-1:]
            assert mandatory_ids[0] in resource.prefer(healthy_ids, mandatory_ids, size), (
                f"{resource.name}: the mandatory {mandatory_ids} is missing"
            )


def test_pre_start(serving_plugin: Setting) -> None:
    """If the plugin requires PreStartContainer, the call succeeds."""
    asking = [
        resource for resource in resources(serving_plugin) if resource.options.pre_start_required
    ]
    if not asking:
        pytest.skip("the plugin does not require it")
    for resource in asking:
        resource.pre_start(resource.healthy()[:1])


def test_pod_resources(serving_plugin: Setting) -> None:
    """Devices that a pod holds stay in the list, even if the pod resources API fails."""
    kubelet = serving_plugin.kubelet
    expected_ids = {
        resource.name: resource.devices().keys() for resource in resources(serving_plugin)
    }
    kubelet.held = {resource.name: resource.healthy()[:1] for resource in resources(serving_plugin)}
    kubelet.refuse_lists = True
    try:
        for resource in resources(serving_plugin):
            resource.allocate(kubelet.held[resource.name])
        for resource in resources(serving_plugin):
            second_list = resource.first_list_again(serving_plugin.timeout_s)
            assert second_list.keys() == expected_ids[resource.name], resource.name
    finally:
        kubelet.refuse_lists, kubelet.held = False, {}


def test_health(serving_plugin: Setting) -> None:
    """When a device breaks, the plugin reports it as Unhealthy and keeps it in the list."""
    earlier_ids = {resource.name: set(resource.devices()) for resource in resources(serving_plugin)}
    sent_before = {resource.name: len(resource.lists) for resource in resources(serving_plugin)}
    if not serving_plugin.run_option("break"):
        pytest.skip("not tested: no --kubelet-conformance-break")

    def sick() -> bool:
        later_devices = [
            device
            for resource in resources(serving_plugin)
            for device_list in resource.lists[sent_before[resource.name] :]
            for device in device_list
        ]
        return any(device.health != HEALTHY for device in later_devices)

    assert serving_plugin.wait(sick), "no device became unhealthy"
    for resource in resources(serving_plugin):
        assert set(resource.devices()) == earlier_ids[resource.name], (
            f"{resource.name}: an unhealthy device left the list"
        )


def test_health_recovered(serving_plugin: Setting) -> None:
    """When a device works again, the plugin reports it as Healthy, without a restart."""
    if not serving_plugin.run_option("mend"):
        pytest.skip("not tested: no --kubelet-conformance-mend")

    def all_well() -> bool:
        return all(
            set(resource.devices().values()) <= {HEALTHY} for resource in resources(serving_plugin)
        )

    assert serving_plugin.wait(all_well), "the device stays unhealthy"
