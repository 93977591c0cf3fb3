"""DRA: kubelet API v1, ResourceSlices and claims of resource.k8s.io/v1."""

import re

import pytest

from device_plugin.proto import dra_pb2 as pb
from kubelet_conformance import dra
from kubelet_conformance.dra import Claim, Place
from kubelet_conformance.kubelet import DraDriver
from kubelet_conformance.plugin import DraSetting
from kubelet_conformance.resource import Refusal

_STARTING_S = 5.0
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CDI = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*=[A-Za-z0-9][A-Za-z0-9_.:-]*")
_VALUES = {"int", "bool", "string", "version", "ints", "bools", "strings", "versions"}


def driver(published_driver: DraSetting) -> DraDriver:
    """Return the only driver."""
    (only_driver,) = published_driver.setting.kubelet.drivers().values()
    return only_driver


def claim_for(published_driver: DraSetting, place: Place) -> Claim:
    """Create a claim with an allocated device, and return it."""
    return dra.allocate(published_driver.api, driver(published_driver).name, place)


def prepare_one(published_driver: DraSetting, claim: Claim) -> list[pb.Device]:
    """Prepare one claim and return its devices."""
    answers = dra.prepare(driver(published_driver), claim)
    assert set(answers) == {claim.uid}, "the answer is for another claim"
    assert answers[claim.uid].error == ""
    return list(answers[claim.uid].devices)


def unprepare_and_free(published_driver: DraSetting, *claims: Claim) -> None:
    """Unprepare claims, and delete them."""
    answers = dra.unprepare(driver(published_driver), *claims)
    assert set(answers) == {claim.uid for claim in claims}, "not every claim has an answer"
    assert {answer.error for answer in answers.values()} <= {""}
    for claim in claims:
        dra.free(published_driver.api, claim)


def test_dra_registers(published_driver: DraSetting) -> None:
    """The driver registers as DRAPlugin with the service v1.DRAPlugin."""
    assert dra.SERVICE in driver(published_driver).versions, driver(published_driver).versions
    assert published_driver.setting.kubelet.refused == []


def test_dra_slices(published_driver: DraSetting) -> None:
    """Pools are complete; device names are unique DNS labels; each attribute has one value."""
    resource_slices = dra.slices(published_driver.api, driver(published_driver).name)
    names = [
        (resource_slice["spec"]["pool"]["name"], d["name"])
        for resource_slice in resource_slices
        for d in resource_slice["spec"].get("devices", ())
    ]
    assert len(set(names)) == len(names), "a device twice in a pool"
    assert all(_LABEL.fullmatch(name) for _, name in names), names
    for resource_slice in resource_slices:
        assert len(resource_slice["spec"].get("devices", ())) <= 128
        for device in resource_slice["spec"].get("devices", ()):
            for name, value in device.get("attributes", {}).items():
                assert len(value) == 1, f"{name}: {value}"
                assert value.keys() <= _VALUES, f"{name}: {value}"


def test_dra_prepare(published_driver: DraSetting) -> None:
    """Prepare returns the device allocated to the claim's request, with its CDI names."""
    place = published_driver.places()[0]
    claim = claim_for(published_driver, place)
    devices = prepare_one(published_driver, claim)
    assert [(device.pool_name, device.device_name) for device in devices] == [
        (place.pool, place.device)
    ]
    assert all(
        not device.request_names or claim.request in device.request_names for device in devices
    )
    names = [name for device in devices for name in device.cdi_device_ids]
    assert all(_CDI.fullmatch(name) for name in names), names
    unprepare_and_free(published_driver, claim)


def test_dra_prepare_again(published_driver: DraSetting) -> None:
    """A second Prepare returns the same answer."""
    claim = claim_for(published_driver, published_driver.places()[0])
    first = prepare_one(published_driver, claim)
    assert prepare_one(published_driver, claim) == first
    unprepare_and_free(published_driver, claim)


def test_dra_unprepare_again(published_driver: DraSetting) -> None:
    """Unprepare of an unprepared claim succeeds: after an Unprepare, or without any Prepare."""
    claim = claim_for(published_driver, published_driver.places()[0])
    prepare_one(published_driver, claim)
    unprepare_and_free(published_driver, claim)
    unprepare_and_free(published_driver, claim)
    unprepare_and_free(published_driver, Claim("never", "00000000-0000-4000-8000-000000000000"))


def expect_refusal(published_driver: DraSetting, claim: Claim) -> str:
    """Prepare a claim that must fail; return the error, of the claim or of the whole call."""
    try:
        return str(dra.prepare(driver(published_driver), claim)[claim.uid].error)
    except Refusal as err:
        return str(err)


def test_dra_several(published_driver: DraSetting) -> None:
    """Prepare and Unprepare of several claims in one call return an answer for each claim."""
    places = published_driver.places()[:2]
    if len(places) < 2:
        pytest.skip("one device only")
    claims = [claim_for(published_driver, place) for place in places]
    answers = dra.prepare(driver(published_driver), *claims)
    for claim, place in zip(claims, places, strict=True):
        assert answers[claim.uid].error == ""
        assert {device.device_name for device in answers[claim.uid].devices} == {place.device}
    unprepare_and_free(published_driver, *claims)


def test_dra_unknown_device(published_driver: DraSetting) -> None:
    """Prepare of a claim with an unknown device fails, and the driver continues."""
    place = published_driver.places()[0]
    claim = claim_for(published_driver, Place(place.pool, "no-such-device"))
    assert expect_refusal(published_driver, claim)
    unprepare_and_free(published_driver, claim)
    valid_claim = claim_for(published_driver, place)
    assert prepare_one(published_driver, valid_claim)
    unprepare_and_free(published_driver, valid_claim)


def test_dra_no_claim(published_driver: DraSetting) -> None:
    """Prepare of a deleted claim fails."""
    assert expect_refusal(
        published_driver, Claim("no-such-claim", "00000000-0000-4000-8000-000000000001")
    )


def test_dra_another_claim_of_that_name(published_driver: DraSetting) -> None:
    """A claim that was deleted and created again under its name is not mistaken for the old one."""
    claim = claim_for(published_driver, published_driver.places()[0])
    assert expect_refusal(
        published_driver, Claim(claim.name, "00000000-0000-4000-8000-000000000002")
    )
    unprepare_and_free(published_driver, claim)


def test_dra_driver_restart(published_driver: DraSetting) -> None:
    """The driver is killed and restarted: prepared claims stay prepared, and can be unprepared."""
    claim = claim_for(published_driver, published_driver.places()[0])
    prepared_devices = prepare_one(published_driver, claim)
    published_driver.setting.process.kill()
    published_driver.setting.process.start()
    assert published_driver.wait_until_answers(), "the driver does not come back"
    assert prepare_one(published_driver, claim) == prepared_devices
    unprepare_and_free(published_driver, claim)


def test_dra_kubelet_restart(published_driver: DraSetting) -> None:
    """The kubelet restarts: it finds the driver, and prepared claims stay prepared."""
    claim = claim_for(published_driver, published_driver.places()[0])
    prepared_devices = prepare_one(published_driver, claim)
    published_driver.setting.kubelet.stop()
    published_driver.setting.kubelet.start()
    assert published_driver.wait_until_answers(), "the kubelet does not find it again"
    assert prepare_one(published_driver, claim) == prepared_devices
    unprepare_and_free(published_driver, claim)


def test_dra_terminated(published_driver: DraSetting) -> None:
    """SIGTERM ends the driver within a grace period of 30 s, and its socket is removed.

    The driver has run for a while: ending it during its start is not tested.
    """
    kubelet = published_driver.setting.kubelet
    published_driver.setting.wait(lambda: published_driver.setting.process.age_s > _STARTING_S)
    assert published_driver.setting.process.terminate(), "the driver does not end on SIGTERM"
    gone = kubelet.wait(lambda kubelet: not kubelet.drivers(), published_driver.setting.timeout_s)
    published_driver.setting.process.start()
    assert published_driver.wait_until_answers(), "the driver does not come back"
    assert gone, "its socket stays in plugins_registry: the kubelet goes on calling it"
