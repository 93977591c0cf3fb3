"""Restarts of the kubelet and of the plugin. Each check begins with a plugin that serves."""

from collections.abc import Mapping

from kubelet_conformance.plugin import Setting


def ids(setting: Setting) -> Mapping[str, frozenset[str]]:
    """Return the device ids of each resource that has devices."""
    return {
        name: frozenset(resource.devices())
        for name, resource in setting.kubelet.resources().items()
        if resource.devices()
    }


def test_kubelet_restart(serving_plugin: Setting) -> None:
    """The kubelet restarts: the plugin registers the same devices again."""
    expected_ids = ids(serving_plugin)
    serving_plugin.kubelet.stop()
    serving_plugin.kubelet.start()
    assert serving_plugin.wait(lambda: ids(serving_plugin) == expected_ids), (
        f"{ids(serving_plugin)}, not {expected_ids}"
    )


def test_plugin_terminated(serving_plugin: Setting) -> None:
    """SIGTERM ends the plugin within a grace period of 30 s; its successor has the same devices."""
    expected_ids = ids(serving_plugin)
    streams = serving_plugin.kubelet.resources().values()
    assert serving_plugin.process.terminate(), "the plugin does not end on SIGTERM"
    assert all(
        stream.wait(lambda stream: stream.ended, serving_plugin.timeout_s) for stream in streams
    )
    serving_plugin.process.start()
    assert serving_plugin.wait(lambda: ids(serving_plugin) == expected_ids), (
        f"{ids(serving_plugin)}, not {expected_ids}"
    )


def test_plugin_killed(serving_plugin: Setting) -> None:
    """After the plugin is killed, its successor starts despite old files, with the same devices."""
    expected_ids = ids(serving_plugin)
    serving_plugin.process.kill()
    serving_plugin.process.start()
    assert serving_plugin.wait(lambda: ids(serving_plugin) == expected_ids), (
        f"{ids(serving_plugin)}, not {expected_ids}"
    )


def test_plugin_before_kubelet(serving_plugin: Setting) -> None:
    """The plugin may start before the kubelet: it waits, or ends and is restarted."""
    expected_ids = ids(serving_plugin)
    serving_plugin.process.terminate()
    serving_plugin.kubelet.stop()
    (serving_plugin.kubelet.device_plugins / "kubelet.sock").unlink(missing_ok=True)
    starts = serving_plugin.process.starts
    serving_plugin.process.start()
    # The plugin has begun when it has logged or ended; without a kubelet it may do either.
    size = len(serving_plugin.process.log)
    serving_plugin.wait(
        lambda: len(serving_plugin.process.log) > size or serving_plugin.process.starts > starts + 1
    )
    serving_plugin.kubelet.start()
    assert serving_plugin.wait(lambda: ids(serving_plugin) == expected_ids), (
        f"{ids(serving_plugin)}, not {expected_ids}"
    )
