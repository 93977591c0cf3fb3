"""Either side starts again. Each check begins with a plugin that serves."""

from collections.abc import Mapping

from kubelet_conformance.plugin import Setting


def ids(setting: Setting) -> Mapping[str, frozenset[str]]:
    """Return the device ids of each resource that has some."""
    return {
        name: frozenset(one.devices())
        for name, one in setting.kubelet.resources().items()
        if one.devices()
    }


def test_kubelet_restart(served: Setting) -> None:
    """The kubelet starts again: the same devices are registered anew."""
    before = ids(served)
    served.kubelet.stop()
    served.kubelet.start()
    assert served.wait(lambda: ids(served) == before), f"{ids(served)}, not {before}"


def test_plugin_terminated(served: Setting) -> None:
    """SIGTERM ends it and its stream in 30 s (a pod's grace); the next one has the same devices."""
    before = ids(served)
    streams = served.kubelet.resources().values()
    assert served.process.terminate(), "it does not end when it is asked to"
    assert all(one.wait(lambda one: one.ended, served.timeout_s) for one in streams)
    served.process.start()
    assert served.wait(lambda: ids(served) == before), f"{ids(served)}, not {before}"


def test_plugin_killed(served: Setting) -> None:
    """It is killed: what is left of it keeps the next one from nothing; the same devices."""
    before = ids(served)
    served.process.kill()
    served.process.start()
    assert served.wait(lambda: ids(served) == before), f"{ids(served)}, not {before}"


def test_plugin_before_kubelet(served: Setting) -> None:
    """It may start before the kubelet: it waits, or ends and is started again."""
    before = ids(served)
    served.process.terminate()
    served.kubelet.stop()
    (served.kubelet.device_plugins / "kubelet.sock").unlink(missing_ok=True)
    starts = served.process.starts
    served.process.start()
    # It has begun when it has written or ended; what it does without a kubelet is its own choice.
    size = len(served.process.log)
    served.wait(lambda: len(served.process.log) > size or served.process.starts > starts + 1)
    served.kubelet.start()
    assert served.wait(lambda: ids(served) == before), f"{ids(served)}, not {before}"
