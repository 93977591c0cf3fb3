"""The time line: its lanes, its order, its spans of time, and links only to what exists."""

import datetime
import random
import re

from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster


def test_events_about_faults_are_in_the_lane_of_faults() -> None:
    cluster = SyntheticCluster()
    for number, (kind, reason) in enumerate(
        (
            *(("GPUFault", "Injected"), ("GPU", "Cleared"), ("GPU", "Reconciled")),
            *(("GPU", "Unhealthy"), ("Pod", "Unhealthy"), ("GPU", "Probation")),
            *(("GPU", "Healthy"), ("GPU", "SliceInUse")),
        )
    ):
        event = synthetic.add_event(cluster, number + 1)
        event["involvedObject"] |= {"kind": kind, "name": "off"}
        event["reason"] = reason
    text = fetch(cluster, "/events", "lane=fault").text
    reasons = re.findall(r'<span class="tag fault">(\w+)</span>', text)
    assert sorted(reasons) == ["Injected", "Probation", "Unhealthy", "Unhealthy"]
    over = re.findall(r'<span class="tag recovery">(\w+)</span>', text)
    assert sorted(over) == ["Cleared", "Healthy"]
    assert text.count('class="mark recovery"') == 2 * len(over)
    assert "Reconciled" not in text
    assert "SliceInUse" not in text


def test_a_count_of_an_event_is_that_of_the_event() -> None:
    cluster = SyntheticCluster()
    synthetic.add_event(cluster, 1)["count"] = 8
    synthetic.add_event(cluster, 2)["count"] = 1
    text = fetch(cluster, "/events").text
    assert re.findall(r">(event repeated [^<]+)<", text) == ["event repeated 8 times"]
    assert "this is no count of denials" in text


def test_an_event_object_is_one_row_within_every_span() -> None:
    """Kubernetes moves an event that is repeated, so that an earlier fault would leave the list."""
    cluster = SyntheticCluster()
    times = {"firstTimestamp": "2026-01-01T08:00:00Z", "lastTimestamp": "2026-01-01T10:00:00Z"}
    synthetic.add_event(cluster, 1).update(times, message="m1", count=3)
    between = dict.fromkeys(times, "2026-01-01T09:00:00Z")
    synthetic.add_event(cluster, 2).update(between, message="m2", count=1)
    synthetic.add_event(cluster, 3).update(times, message="m3", count=1)
    text = fetch(cluster, "/events").text
    assert messages(text) == ["m3", "m1", "m2"]
    assert "event repeated 3 times since 2026-01-01 08:00:00<" in text
    assert text.count(">first at 2026-01-01 08:00:00<") == 1
    early = fetch(cluster, "/events", "until=2026-01-01T08:30:00").text
    assert sorted(messages(early)) == ["m1", "m3"]
    assert "event repeated" not in early
    assert "2026-01-01 10:00:00" not in early


def test_a_recovery_is_no_fault_to_look_at() -> None:
    cluster = SyntheticCluster()
    synthetic.add_event(cluster, 1).update(message="Degraded is False", type="Warning")
    text = fetch(cluster, "/events").text
    assert '<tr class="recovery">' in text
    assert '<tr class="warning">' not in text


def add_events(cluster: SyntheticCluster, times: list[tuple[str, str]]) -> None:
    """Add events, whose resource versions grow, with a message and a time each."""
    for number, (message, time) in enumerate(times):
        event = synthetic.add_event(cluster, number)
        event |= {"message": message, "lastTimestamp": time}


def messages(text: str) -> list[str]:
    return re.findall(r"<td><bdi>(m\d)</bdi></td>", text)


def test_events_of_one_second_are_in_the_order_of_their_writes() -> None:
    cluster = SyntheticCluster()
    second = "2026-01-01T10:00:00"
    times = [("m0", f"{second}Z"), ("m1", f"{second}.900000Z"), ("m2", f"{second}Z")]
    times += [("m3", "2026-01-01T10:00:01Z"), ("m4", f"{second}.100000Z")]
    add_events(cluster, [*times, ("m5", "2026-01-01T12:00:00+03:00")])
    cluster.put("Event", cluster.objects["Event"]["default/event-0"])  # written again
    for path, query in (("/events", ""), ("/gpus/gpu-0000-gpu-1", "")):
        if path != "/events":
            synthetic.pool_of(cluster, "h100-80gb")
            synthetic.add_node(cluster, "gpu-0000", "h100-80gb", random.Random(1), gpus=2)
            for event in cluster.objects["Event"].values():
                event["involvedObject"]["name"] = "gpu-0000-gpu-1"
        assert messages(fetch(cluster, path, query).text) == ["m3", "m0", "m4", "m2", "m1", "m5"]


def test_a_span_of_time_has_the_events_within_it() -> None:
    cluster = SyntheticCluster()
    now = datetime.datetime.now(datetime.UTC)
    ages_s = (10, 200, 400, 3000, 4000, 90_000)
    moments = [now - datetime.timedelta(seconds=age) for age in ages_s]
    times = [(f"m{n}", f"{one:%Y-%m-%dT%H:%M:%SZ}") for n, one in enumerate(moments)]
    add_events(cluster, [*times, ("m6", "not a time")])

    def shown(query: str) -> list[str]:
        answer = fetch(cluster, "/events", query)
        assert answer.status == 200
        return messages(answer.text)

    assert shown("") == ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]
    assert shown("period=5m") == ["m0", "m1"]
    assert shown("period=1h&since=&until=") == ["m0", "m1", "m2", "m3"]
    assert shown(f"since={moments[3]:%Y-%m-%dT%H:%M:%S}") == ["m0", "m1", "m2", "m3"]
    assert shown(f"until={moments[3]:%Y-%m-%dT%H:%M:%SZ}") == ["m3", "m4", "m5"]
    both = f"since={moments[4]:%Y-%m-%dT%H:%M:%S}&until={moments[2]:%Y-%m-%dT%H:%M:%S}"
    assert shown(both) == ["m2", "m3", "m4"]
    assert shown("since=9999-12-31T23:59:59&until=0001-01-01T00:00:00") == []
    assert 'data-again="5"' in fetch(cluster, "/events", "period=5m").text
    assert "data-again" not in fetch(cluster, "/events").text


def test_only_objects_that_exist_have_a_link() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 2)
    cluster.objects["Event"].clear()
    (pod,) = cluster.objects["GPU"]["gpu-0000-gpu-0"]["status"]["slices"][0]["holders"]
    held = f"{pod['namespace']}/{pod['name']}"
    there = (
        *(
            ("GPU", "gpu-0000-gpu-0", "/gpus/gpu-0000-gpu-0"),
            ("Node", "gpu-0001", "/nodes/gpu-0001"),
        ),
        *(("GPUPool", "h100", "/?pool=h100"), ("MIGLayout", "mixed", "/rollout/mixed")),
        *(("GPUFault", "xid-48-drill", "/faults/xid-48-drill"), ("Pod", held, f"/pods/{held}")),
    )
    kinds = ("GPU", "Node", "GPUPool", "MIGLayout", "GPUFault", "Pod", "ResourceClaim")
    gone = [(kind, f"gone-{number}") for number, kind in enumerate(kinds)]
    for number, (kind, name) in enumerate([*(one[:2] for one in there), *gone]):
        event = synthetic.add_event(cluster, number)
        space, _, plain = name.rpartition("/")
        event["involvedObject"] |= {"kind": kind, "name": plain}
        if kind in ("Pod", "ResourceClaim"):
            event["metadata"]["namespace"] = event["involvedObject"]["namespace"] = space or "ml"
    text = fetch(cluster, "/events").text
    for _, _, path in there:
        assert f'href="{path}"' in text
        assert fetch(cluster, path.partition("?")[0], path.partition("?")[2]).status == 200
    assert not re.findall(r'href="[^"]*gone-', text)
    for number, kind in enumerate(kinds):
        known = kind not in ("Pod", "ResourceClaim")  # of these, not every one is read
        assert bool(re.search(rf"gone-{number}</bdi>\s+<span[^>]*>\(deleted\)", text)) == known, (
            kind
        )


def test_an_event_about_an_earlier_object_does_not_lead_to_the_one_with_its_name_now() -> None:
    cluster = SyntheticCluster()
    fault = cluster.put("GPUFault", {"metadata": {"name": "off"}, "spec": {"offBus": True}})
    for number, uid in enumerate((fault["metadata"]["uid"], "earlier")):
        event = synthetic.add_event(cluster, number)
        event["involvedObject"] |= {"kind": "GPUFault", "name": "off", "uid": uid}
        event["message"] = f"m{number}"
    text = fetch(cluster, "/events").text
    assert text.count("another object has this name now") == 1
    assert text.count('href="/faults/off"') == 2  # the request, and its event
    assert messages(fetch(cluster, "/faults/off").text) == ["m0"]


def test_a_faults_entry_states_its_state_as_that_of_now() -> None:
    cluster = SyntheticCluster()
    fault = cluster.put("GPUFault", {"metadata": {"name": "off"}, "spec": {"offBus": True}})
    assert "the operator has not processed it" in fetch(cluster, "/events").text
    fault["status"] = {"phase": "Cleared", "gpu": "g", "fault": "offBus"}
    text = fetch(cluster, "/events").text
    assert "Requested" in text
    assert "offBus on g: it is Cleared now" in text


def test_the_page_of_a_sick_gpu_states_since_when_after_events_have_expired() -> None:
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=1)
    status = cluster.objects["GPU"]["n1-gpu-0"]["status"]
    status["health"] = "Unhealthy"
    status["conditions"].append(
        {
            "type": "Degraded",
            "status": "True",
            "reason": "Unhealthy",
            "message": "GPU-1 is Unhealthy: Xid 79",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    )
    text = fetch(cluster, "/gpus/n1-gpu-0").text
    assert re.search(r"degraded since [^<]*03:04:05[^<]*UTC: <bdi>GPU-1 is Unhealthy: Xid 79", text)
    assert re.search(r"<td[^>]*>Degraded</td>\s*<td[^>]*>True</td>\s*<td[^>]*>[^<]*03:04:05", text)
