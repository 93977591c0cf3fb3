"""Settings of the agent: those that the DaemonSet sets, and the defaults of the others."""

import pytest

from device_plugin import app, config
from device_plugin.errors import SettingsError

REQUIRED = {"NODE_NAME": "n", "POD_NAME": "p"}


def test_defaults_hold_where_nothing_is_set() -> None:
    assert config.from_environment(REQUIRED) == config.Settings("n", "p")


def test_seconds_can_be_set_and_must_be_numbers() -> None:
    set_to = {"TESSERA_LISTED_WITHIN_SECONDS": "5", "TESSERA_LEAVE_SECONDS": "0.25"}
    settings = config.from_environment(REQUIRED | set_to)
    assert (settings.listed_within_s, settings.leave_s) == (5.0, 0.25)
    with pytest.raises(
        SettingsError, match="TESSERA_LEAVE_SECONDS=soon: must be a number of seconds"
    ):
        config.from_environment(REQUIRED | {"TESSERA_LEAVE_SECONDS": "soon"})


@pytest.mark.parametrize("seconds", ["28.1", "inf", "nan", "-1"])
def test_an_agent_has_to_end_before_its_supervisor_kills_it(seconds: str) -> None:
    assert app._LEAVE_S - config.LEAVE_S > 1, "time for the last steps"
    with pytest.raises(SettingsError, match=r"TESSERA_LEAVE_SECONDS=.*: must be 0 to 28"):
        config.from_environment(REQUIRED | {"TESSERA_LEAVE_SECONDS": seconds})
