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


def driver(published: DraSetting) -> DraDriver:
    """Return the one driver."""
    (found,) = published.setting.kubelet.drivers().values()
    return found


def claim_for(published: DraSetting, place: Place) -> Claim:
    """Return a claim that was allocated a device."""
    return dra.allocate(published.api, driver(published).name, place)


def prepared(published: DraSetting, claim: Claim) -> list[pb.Device]:
    """Prepare one claim and return its devices."""
    answers = dra.prepare(driver(published), claim)
    assert set(answers) == {claim.uid}, "the answer is for another claim"
    assert answers[claim.uid].error == ""
    return list(answers[claim.uid].devices)


def given_back(published: DraSetting, *claims: Claim) -> None:
    """Unprepare claims, and delete them."""
    answers = dra.unprepare(driver(published), *claims)
    assert set(answers) == {claim.uid for claim in claims}, "not every claim has an answer"
    assert {one.error for one in answers.values()} <= {""}
    for claim in claims:
        dra.free(published.api, claim)


def test_dra_registers(published: DraSetting) -> None:
    """The driver registers as DRAPlugin with the service v1.DRAPlugin."""
    assert dra.SERVICE in driver(published).versions, driver(published).versions
    assert published.setting.kubelet.refused == []


def test_dra_slices(published: DraSetting) -> None:
    """ResourceSlices: complete pools, device names unique DNS labels, attributes of one value."""
    found = dra.slices(published.api, driver(published).name)
    names = [
        (one["spec"]["pool"]["name"], d["name"])
        for one in found
        for d in one["spec"].get("devices", ())
    ]
    assert len(set(names)) == len(names), "a device twice in a pool"
    assert all(_LABEL.fullmatch(name) for _, name in names), names
    for one in found:
        assert len(one["spec"].get("devices", ())) <= 128
        for device in one["spec"].get("devices", ()):
            for name, value in device.get("attributes", {}).items():
                assert len(value) == 1, f"{name}: {value}"
                assert value.keys() <= _VALUES, f"{name}: {value}"


def test_dra_prepare(published: DraSetting) -> None:
    """Prepare gives the device that was allocated, to the request that asked, by CDI names."""
    place = published.places()[0]
    claim = claim_for(published, place)
    devices = prepared(published, claim)
    assert [(one.pool_name, one.device_name) for one in devices] == [(place.pool, place.device)]
    assert all(not one.request_names or claim.request in one.request_names for one in devices)
    names = [name for one in devices for name in one.cdi_device_ids]
    assert all(_CDI.fullmatch(name) for name in names), names
    given_back(published, claim)


def test_dra_prepare_again(published: DraSetting) -> None:
    """Prepare of what is prepared gives the same answer."""
    claim = claim_for(published, published.places()[0])
    first = prepared(published, claim)
    assert prepared(published, claim) == first
    given_back(published, claim)


def test_dra_unprepare_again(published: DraSetting) -> None:
    """Unprepare of what is not prepared succeeds: after another one, and without any Prepare."""
    claim = claim_for(published, published.places()[0])
    prepared(published, claim)
    given_back(published, claim)
    given_back(published, claim)
    given_back(published, Claim("never", "00000000-0000-4000-8000-000000000000"))


def refused(published: DraSetting, claim: Claim) -> str:
    """Prepare a claim that cannot be; return the error, of the claim or of the whole call."""
    try:
        return str(dra.prepare(driver(published), claim)[claim.uid].error)
    except Refusal as err:
        return str(err)


def test_dra_several(published: DraSetting) -> None:
    """Several claims in one call each have their own answer, to Prepare and to Unprepare."""
    there = published.places()[:2]
    if len(there) < 2:
        pytest.skip("one device only")
    claims = [claim_for(published, place) for place in there]
    answers = dra.prepare(driver(published), *claims)
    for claim, place in zip(claims, there, strict=True):
        assert answers[claim.uid].error == ""
        assert {one.device_name for one in answers[claim.uid].devices} == {place.device}
    given_back(published, *claims)


def test_dra_unknown_device(published: DraSetting) -> None:
    """A claim with a device that is not there is an error, and the driver lives on."""
    place = published.places()[0]
    claim = claim_for(published, Place(place.pool, "no-such-device"))
    assert refused(published, claim)
    given_back(published, claim)
    other = claim_for(published, place)
    assert prepared(published, other)
    given_back(published, other)


def test_dra_no_claim(published: DraSetting) -> None:
    """A claim that does not exist any more is an error."""
    assert refused(published, Claim("no-such-claim", "00000000-0000-4000-8000-000000000001"))


def test_dra_another_claim_of_that_name(published: DraSetting) -> None:
    """A claim that was deleted and made again under its name is not taken for the old one."""
    claim = claim_for(published, published.places()[0])
    assert refused(published, Claim(claim.name, "00000000-0000-4000-8000-000000000002"))
    given_back(published, claim)


def test_dra_driver_restart(published: DraSetting) -> None:
    """The driver is killed and starts again: what was prepared still is, and can be given back."""
    claim = claim_for(published, published.places()[0])
    before = prepared(published, claim)
    published.setting.process.kill()
    published.setting.process.start()
    assert published.wait_until_answers(), "it does not come back"
    assert prepared(published, claim) == before
    given_back(published, claim)


def test_dra_kubelet_restart(published: DraSetting) -> None:
    """The kubelet starts again: it finds the driver, and what is prepared."""
    claim = claim_for(published, published.places()[0])
    before = prepared(published, claim)
    published.setting.kubelet.stop()
    published.setting.kubelet.start()
    assert published.wait_until_answers(), "the kubelet does not find it again"
    assert prepared(published, claim) == before
    given_back(published, claim)


def test_dra_terminated(published: DraSetting) -> None:
    """SIGTERM ends it within a pod's 30 seconds, and its socket leaves the registry.

    Of one that has run for a while: what it leaves that is ended while it starts is not asked.
    """
    kubelet = published.setting.kubelet
    published.setting.wait(lambda: published.setting.process.age_s > _STARTING_S)
    assert published.setting.process.terminate(), "it does not end when it is asked to"
    gone = kubelet.wait(lambda kubelet: not kubelet.drivers(), published.setting.timeout_s)
    published.setting.process.start()
    assert published.wait_until_answers(), "it does not come back"
    assert gone, "its socket stays in plugins_registry: the kubelet goes on calling it"
