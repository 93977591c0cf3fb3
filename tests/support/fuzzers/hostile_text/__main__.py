"""``make fuzz text=parse|isa|llvm|all``: hostile PTX, guided by the code that it covers.

    make fuzz text=isa n=10000        10,000 more inputs to verified ISA
    make fuzz text=all                the three stages in turns, until each has reached its goal
    make fuzz text=all minutes=60 jobs=2    the same for an hour, in two processes
    make fuzz text=llvm kernel=FILE   one text again

State is under ``.fuzz/text``: a run resumes where the last one stopped, counts included. Once
all goals are reached, ``all`` doubles them. Exits with 1 if a text failed in any run.
"""

import importlib.util
import sys
import time
from pathlib import Path

from support.fuzzers.fuzzing import command
from support.fuzzers.hostile_text.campaign import GOALS, Campaign
from support.fuzzers.hostile_text.targets import STAGES, Target

_TURN_MINUTES = {"parse": 4.0, "isa": 8.0, "llvm": 8.0}
_DEFAULTS = {
    "text": "all",
    "n": "0",
    "minutes": "1000000",
    **{name: command.DEFAULTS[name] for name in ("jobs", "folder", "kernel")},
}


def main(arguments: list[str]) -> int:
    """Run with ``name=value`` arguments, in which empty values mean the defaults; return the exit
    status.
    """
    chosen = command.parse_arguments(arguments, _DEFAULTS)
    if chosen is None:
        return 2
    if chosen["kernel"]:
        return _again(chosen["text"], Path(chosen["kernel"]))
    if importlib.util.find_spec("atheris") is None:
        print("NOT RUN: coverage comes from Atheris: .venv/bin/pip install atheris")
        return 2
    stages = STAGES if chosen["text"] == "all" else (chosen["text"],)
    folder, jobs = Path(chosen["folder"]), int(chosen["jobs"])
    campaigns = {stage: Campaign(stage, folder, jobs=jobs) for stage in stages}
    minutes = float(chosen["minutes"])
    try:
        if len(stages) == 1:
            campaigns[stages[0]].run(int(chosen["n"]) or GOALS[stages[0]], minutes)
        else:
            _in_turns(campaigns, minutes)
    except KeyboardInterrupt:
        print("stopped; the next run continues from here")
    for campaign in campaigns.values():
        print(campaign.summary())
    found = [path for campaign in campaigns.values() for path in campaign.list_findings()]
    for path in found:
        print(path)
    return 1 if found else 0


def _in_turns(campaigns: dict[str, Campaign], minutes: float) -> None:
    """Run all stages until each has reached its next goal, or for ``minutes``."""
    until = time.monotonic() + minutes * 60
    goals = {
        stage: (campaign.state.runs // GOALS[stage] + 1) * GOALS[stage]
        for stage, campaign in campaigns.items()
    }
    while any(campaigns[stage].state.runs < goal for stage, goal in goals.items()):
        for stage, campaign in campaigns.items():
            left = (until - time.monotonic()) / 60
            if left <= 0:
                return
            missing = goals[stage] - campaign.state.runs
            campaign.run(missing, min(_TURN_MINUTES[stage], left))


def _again(stage: str, path: Path) -> int:
    target = Target(stage)
    failure = target.examine(path.read_bytes())
    target.close()
    print(f"{failure.kind}\n{failure.detail}" if failure else f"no failure: {target.reached}")
    return 1 if failure else 0


if __name__ == "__main__":
    command.stop_on_signal()
    sys.exit(main(sys.argv[1:]))
