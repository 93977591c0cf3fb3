"""Each daemon's options are the fields of its frozen dataclasses, and the agent's variables, too."""

import dataclasses
from pathlib import Path

import click
import pytest

from device_plugin import config
from device_plugin.second_layer import daemon as linkd
from hca.daemon import __main__ as hcad
from hca.daemon.netd import broker, daemon as netd
from hca.daemon.serving import node
from vgpu_sim.cli.clients.standalone import StandaloneOptions
from vgpu_sim.gpud import command as gpud
from vgpu_sim.gpud.options import COMMAND_LINE
from vgpu_sim.options import declared_by

DAEMONS: dict[str, tuple[click.Command, tuple[type, ...]]] = {
    "gpud": (gpud.main, COMMAND_LINE),
    "hcad": (hcad.main, (hcad._Options,)),
    "hcad of a node": (node.main, (node._Options,)),
    "netd": (netd.main, (netd.Options,)),
    "broker": (broker.main, (broker.Options,)),
    "linkd": (linkd.main, (linkd.Options,)),
}
DERIVED = {
    "NodeOptions": {"workers", "hca", "faults", "telemetry"},
    "WorkerSettings": {"own_uids", "cache_root"},
    "HcaOptions": {"token"},
    "Options": {"ignored"},
    "_Options": {"near"},
}
"""Fields that follow from other options, or from the node."""
SPEAK_FOR_THEMSELVES = {"--directory", "--ready-fd", "--socket-fd", "--backend", "--log-level"}
"""Options without a help text."""


@pytest.mark.parametrize("daemon", DAEMONS)
def test_every_field_is_an_option_with_a_help_text_unless_it_is_derived(daemon: str) -> None:
    _command, kinds = DAEMONS[daemon]
    for kind in kinds:
        assert kind.__dataclass_params__.frozen, kind  # type: ignore[attr-defined]
        options = declared_by(kind)
        fields = {one.name for one in dataclasses.fields(kind)}
        assert fields - options.keys() <= DERIVED.get(kind.__name__, set()), kind
        for names, declared in options.values():
            assert declared.settings.get("help") or names[0] in SPEAK_FOR_THEMSELVES, names


@pytest.mark.parametrize("daemon", DAEMONS)
def test_every_option_is_a_field(daemon: str) -> None:
    command, kinds = DAEMONS[daemon]
    of_fields = {
        word for kind in kinds for names, _ in declared_by(kind).values() for word in names
    }
    of_command = {
        "/".join((*one.opts, *one.secondary_opts))
        for one in command.params
        if isinstance(one, click.Option)
    }
    assert of_command == of_fields


def test_what_a_private_gpud_is_started_with_are_options_of_gpud() -> None:
    of_gpud = {names for kind in COMMAND_LINE for names, _ in declared_by(kind).values()}
    of_private = {names for names, _ in declared_by(StandaloneOptions).values()}
    assert of_private < of_gpud
    assert len(of_private) == len(dataclasses.fields(StandaloneOptions))


def test_options_that_are_given_become_words() -> None:
    assert StandaloneOptions().arguments() == []
    options = StandaloneOptions(
        capability="8.0", cache_dir=Path("there"), budget_bytes=0, report_usage=True
    )
    assert options.arguments() == [
        *("--cc", "8.0", "--cache-dir", "there", "--budget", "0"),
        "--report-usage",
    ]


@pytest.mark.parametrize("kind", [config.Settings, config.Hcas, config.ExporterSettings])
def test_every_setting_of_the_agent_names_its_variable(kind: type) -> None:
    variables = config.variables(kind)
    assert {one.name for one in dataclasses.fields(kind)} - variables.keys() <= {"hcas"}
    assert len({one.name for one in variables.values()}) == len(variables)


def test_a_variable_that_is_set_changes_its_setting_and_no_other() -> None:
    required = {"NODE_NAME": "n", "POD_NAME": "p"}
    before = dataclasses.asdict(config.from_environment(required))
    for name, declared in config.variables(config.Settings).items():
        for text in ("mounts", "true", "7"):
            try:
                after = config.from_environment({**required, declared.name: text})
            except config.SettingsError:
                continue
            changed = dataclasses.asdict(after)
            assert {one for one in changed if changed[one] != before[one]} <= {name}
            if changed != before:
                break
        else:
            pytest.fail(f"{declared.name} sets nothing")
