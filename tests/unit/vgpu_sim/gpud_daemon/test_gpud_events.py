"""Every subscriber gets gpud's events in causal order."""

import pytest

from vgpu_sim.gpud.events import EventBus


def test_a_subscribers_event_follows_its_cause_for_all_subscribers():
    bus, seen = EventBus(), []
    bus.subscribe(lambda event: bus.emit("xid", xid=43) if event["event"] == "fault" else None)
    bus.subscribe(lambda event: seen.append(event["event"]))
    bus.emit("fault")
    bus.emit("context_ended")
    assert seen == ["fault", "xid", "context_ended"]


def test_a_subscriber_that_raises_does_not_silence_the_bus():
    bus, seen = EventBus(), []

    def fail(event):
        if event["event"] == "fault":
            raise ValueError

    bus.subscribe(fail)
    bus.subscribe(lambda event: seen.append(event["event"]))
    with pytest.raises(ValueError):
        bus.emit("fault")
    bus.emit("context_ended")
    assert seen == ["context_ended"]
