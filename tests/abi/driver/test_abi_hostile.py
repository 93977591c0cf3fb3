"""Hostile calls and killed clients: nothing but the caller is affected. ``make fuzz hostile=1`` and
``make fuzz kills=1`` run long ones.
"""

from support.fuzzers import random_kills
from support.fuzzers.hostile_calls import campaign

CALLS, KILLS = 4500, 4


def test_hostile_arguments_end_at_most_the_caller(environment, libraries) -> None:
    report = campaign.run(environment, libraries, seed=26, calls=CALLS, of_a_process=1500)
    assert report.defects == []
    assert report.calls >= CALLS
    assert sum(report.crashes.values()) < report.processes, report.examples


def test_killed_clients_leave_nothing(node, environment) -> None:
    report = random_kills.kill_clients(node, environment, seed=26, count=KILLS)
    assert (report.kills, report.defects) == (KILLS, [])
