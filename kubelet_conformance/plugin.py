"""The pytest plugin: options, fixtures of the checks, and the report.

    pytest --kubelet-conformance-plugin 'my-device-plugin --flags'
    pytest --kubelet-conformance-driver 'my-dra-driver --kubeconfig $KUBECONFIG'

Every pytest run loads it if it is installed, so it imports its dependencies only when needed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubelet_conformance.api_server import ApiServer
    from kubelet_conformance.dra import Place
    from kubelet_conformance.kubelet import SimulatedKubelet
    from kubelet_conformance.process import PluginProcess

SUITE = Path(__file__).with_name("suite")
_PREFIX = "--kubelet-conformance-"
_AGAIN_S = 0.1
NODE = "conformance"
_RESULTS: pytest.StashKey[list[dict[str, str]]] = pytest.StashKey()
_CONFIG: list[pytest.Config] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options.

    The options have no effect unless one of them gives the command of a plugin or driver.
    """
    group = parser.getgroup("kubelet-conformance", "does a plugin keep the kubelet's contract?")
    for name, text in (
        ("plugin", "a device plugin: a line for the shell; $KUBELET_DIR is set"),
        ("driver", "a DRA driver: likewise, with $KUBECONFIG, $NODE_NAME and $CDI_DIR"),
        ("resource", "the device plugin's resources, with commas: waited for (default: the first)"),
        ("break", "a line for the shell that makes a device unhealthy"),
        ("mend", "a line for the shell that makes it healthy again"),
        ("dir", "the simulated kubelet's directory (default: a new one)"),
        ("report", "write results to this file, as JSON"),
    ):
        group.addoption(f"{_PREFIX}{name}", default="", help=text)
    group.addoption(
        f"{_PREFIX}timeout",
        type=float,
        default=60.0,
        help="seconds that a registration or a list may take (default: 60)",
    )
    group.addoption(
        f"{_PREFIX}shared",
        action="store_true",
        help="run the command as it is, without $KUBELET_DIR at /var/lib/kubelet",
    )


def option(config: pytest.Config, name: str) -> Any:
    """Return the value of one of this plugin's options."""
    return config.getoption(f"{_PREFIX}{name}")


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest run the checks if the command line names no other test."""
    if not (option(config, "plugin") or option(config, "driver")):
        return
    config.stash[_RESULTS] = []
    _CONFIG[:] = [config]
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        parts = [("plugin", "test_device_plugin.py"), ("plugin", "test_restarts.py")]
        parts += [("driver", "test_dra.py")]
        config.args[:] = [str(SUITE / file) for name, file in parts if option(config, name)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record each check's outcome; an error in its setup counts as a failure."""
    if not _CONFIG or _RESULTS not in _CONFIG[0].stash:
        return
    if report.when != "call" and report.outcome == "passed":
        return
    reason = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        reason = _crash(report)
    check = report.nodeid.rpartition("::")[2]
    _CONFIG[0].stash[_RESULTS].append({"check": check, "outcome": report.outcome, "reason": reason})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report of all checks' outcomes, if it was requested."""
    config = session.config
    if _RESULTS in config.stash and (path := option(config, "report")):
        Path(path).write_text(json.dumps({"results": config.stash[_RESULTS]}, indent=1) + "\n")


def _crash(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return str(text).splitlines()[0].removeprefix("AssertionError: ")


@dataclass(frozen=True)
class Setting:
    """A simulated kubelet and the process under test.

    ``timeout_s`` limits the time for one answer of that process.
    """

    kubelet: "SimulatedKubelet"
    process: "PluginProcess"
    timeout_s: float
    wanted: frozenset[str]
    config: pytest.Config
    failures: list[str] = field(default_factory=list)
    """Failures to register or to answer in time; after one, later checks do not wait again."""

    def serves(self) -> bool:
        """Return whether every expected resource has sent a list with a healthy device."""
        healthy_resources = {
            name for name, resource in self.kubelet.resources().items() if resource.healthy()
        }
        return bool(healthy_resources) and healthy_resources >= self.wanted

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition, at most ``timeout_s``; return whether it became true.

        Meanwhile, the process is restarted whenever it ends.
        """
        deadline = time.monotonic() + self.timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.process.keep_alive()
            time.sleep(_AGAIN_S)
        return True

    def expect(self, come: Callable[[], bool], otherwise: Callable[[], str]) -> None:
        """Fail unless ``come`` returns true. After an earlier failure, fail without calling
        ``come``.

        ``otherwise`` returns the reason of the failure. Raises AssertionError.
        """
        assert not self.failures, self.failures[0]
        if not come():
            self.failures.append(f"{otherwise()} (refused: {self.kubelet.refused})")
        assert not self.failures, self.failures[0]

    def run_option(self, name: str) -> bool:
        """Run the shell command in the option ``name``; return whether the option was given."""
        if not (line := option(self.config, name)):
            return False
        # a trusted command line
        subprocess.run(line, shell=True, check=True, timeout=self.timeout_s)
        return True


@pytest.fixture(scope="session")
def conformance_room(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a directory with a short name: paths of sockets are limited to 107 bytes."""
    configured_dir = option(request.config, "dir")
    room = Path(tempfile.mkdtemp(prefix="kc-", dir="/tmp" if os.path.isdir("/tmp") else None))
    yield Path(configured_dir) if configured_dir else room
    shutil.rmtree(room, ignore_errors=True)


@pytest.fixture(scope="session")
def setting(request: pytest.FixtureRequest, conformance_room: Path) -> Iterator[Setting]:
    """Run a kubelet and the device plugin."""
    from kubelet_conformance.kubelet import SimulatedKubelet
    from kubelet_conformance.process import PluginProcess

    config = request.config
    line = option(config, "plugin")
    if not line:
        pytest.skip(f"no {_PREFIX}plugin")
    kubelet = SimulatedKubelet(conformance_room / "k")
    expected_resources = frozenset(filter(None, option(config, "resource").split(",")))
    private = not option(config, "shared")
    process = PluginProcess(line, kubelet.directory, conformance_room, {}, private)
    kubelet.start()
    process.start()
    yield Setting(kubelet, process, option(config, "timeout"), expected_resources, config)
    process.terminate()
    kubelet.stop()
    sys.stdout.write(process.log)  # shown by pytest where a check has failed


@dataclass(frozen=True)
class DraSetting:
    """A simulated kubelet and a DRA driver, with an API server."""

    setting: Setting
    api: "ApiServer"

    def places(self) -> "list[Place]":
        """Return the devices that the driver publishes; the result is empty until all pools are
        complete.
        """
        from kubelet_conformance import dra

        names = self.setting.kubelet.drivers()
        resource_slices = [
            resource_slice for name in names for resource_slice in dra.slices(self.api, name)
        ]
        return dra.places(resource_slices) if dra.is_complete(resource_slices) else []

    def wait_until_answers(self) -> bool:
        """Wait until the driver registers and answers; return whether it did so in time."""
        from kubelet_conformance import dra
        from kubelet_conformance.resource import Refusal

        def answers() -> bool:
            for driver in self.setting.kubelet.drivers().values():
                try:
                    dra.prepare(driver)
                except Refusal:
                    return False
                return bool(self.places())
            return False

        return self.setting.wait(answers)


@pytest.fixture(scope="session")
def dra_setting(request: pytest.FixtureRequest, conformance_room: Path) -> Iterator[DraSetting]:
    """Run a kubelet, an API server with a node, and the driver."""
    from kubelet_conformance.api_server import ApiServer
    from kubelet_conformance.kubelet import SimulatedKubelet
    from kubelet_conformance.process import PluginProcess

    config = request.config
    line = option(config, "driver")
    if not line:
        pytest.skip(f"no {_PREFIX}driver")
    room = conformance_room / "d"
    room.mkdir()
    kubelet = SimulatedKubelet(room / "k")
    with ApiServer() as api:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {}}
        api.put("v1/nodes", node)
        (room / "kubeconfig").write_text(json.dumps(api.kubeconfig()))
        environment = {
            "KUBECONFIG": str(room / "kubeconfig"),
            "NODE_NAME": NODE,
            "CDI_DIR": str(room / "cdi"),
        }
        private = not option(config, "shared")
        process = PluginProcess(line, kubelet.directory, room, environment, private)
        kubelet.start()
        process.start()
        setting = Setting(kubelet, process, option(config, "timeout"), frozenset(), config)
        yield DraSetting(setting, api)
        process.terminate()
        kubelet.stop()
        sys.stdout.write(process.log)


@pytest.fixture
def published_driver(dra_setting: DraSetting) -> DraSetting:
    """Wait until the driver is registered and its devices are published."""
    setting = dra_setting.setting
    setting.expect(
        dra_setting.wait_until_answers,
        lambda: f"no complete pool of devices within {setting.timeout_s:.0f} s",
    )
    return dra_setting


@pytest.fixture
def serving_plugin(setting: Setting) -> Setting:
    """Wait until the plugin's resources are registered."""
    setting.expect(
        lambda: setting.wait(setting.serves),
        lambda: f"no list of a healthy device within {setting.timeout_s:.0f} s",
    )
    return setting
