"""The operator's configuration is parsed strictly."""

from pathlib import Path

import pytest

from gpu_operator import config
from gpu_operator.errors import ConfigError

GOOD = "node: {image: 'tessera:1', serviceAccount: n}"


def load(directory: Path, text: str) -> config.Config:
    path = directory / "operator.yaml"
    path.write_text(text)
    environment = {"TESSERA_OPERATOR_CONFIG": str(path), "POD_NAMESPACE": "ns", "POD_NAME": "me"}
    loaded, identity = config.load(environment)
    assert (identity.namespace, identity.pod_name) == ("ns", "me")
    return loaded


def test_defaults(tmp_path: Path) -> None:
    loaded = load(tmp_path, GOOD)
    election = loaded.leader_election
    assert (election.lease_duration_seconds, election.renew_deadline_seconds) == (15, 10)
    assert election.retry_period_seconds == 2
    assert loaded.node.gpud.backend == "jit"
    assert loaded.policy is None


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("node: {serviceAccount: n}", "node.image"),
        (GOOD + "\nleaseSecond: 5", "leaseSecond"),
        (GOOD + "\nleaderElection: {retryPeriodSeconds: 0}", "retryPeriodSeconds"),
        (GOOD + "\nleaderElection: {leaseDurationSeconds: 10}", "leaseDurationSeconds must be"),
        (GOOD + "\nleaderElection: {renewDeadlineSeconds: 2}", "greater than retryPeriodSeconds"),
        ("[", "operator.yaml"),
        ("", "operator.yaml"),
    ],
)
def test_errors_name_the_field(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        load(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        config.load({"TESSERA_OPERATOR_CONFIG": str(tmp_path / "absent")})
