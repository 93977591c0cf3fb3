"""``make fuzz text=parse|isa|llvm|all``: hostile PTX, guided by the code that it covers.

    make fuzz text=isa n=10000        10,000 more inputs to verified ISA
    make fuzz text=all minutes=60     an hour, the three stages in turns
    make fuzz text=llvm kernel=FILE   one text again

State is under ``.fuzz/text``: a run goes on where the last one stopped. Ends with 1 when something
failed in any run.
"""

import importlib.util
import sys
from pathlib import Path

from hostile_text.campaign import GOALS, Campaign
from hostile_text.targets import STAGES, Target

_TURN_MINUTES = {"parse": 4.0, "isa": 8.0, "llvm": 8.0}
_DEFAULTS = {"text": "all", "n": "0", "minutes": "1000000", "folder": ".fuzz", "kernel": ""}


def main(arguments: list[str]) -> int:
    """Run what ``name=value`` arguments say; empty values are the defaults."""
    said = dict(argument.split("=", 1) for argument in arguments)
    chosen = _DEFAULTS | {name: value for name, value in said.items() if value}
    if chosen["kernel"]:
        return _again(chosen["text"], Path(chosen["kernel"]))
    if importlib.util.find_spec("atheris") is None:
        print("NOT RUN: coverage comes from Atheris: .venv/bin/pip install atheris")
        return 2
    stages = STAGES if chosen["text"] == "all" else (chosen["text"],)
    campaigns = {stage: Campaign(stage, Path(chosen["folder"])) for stage in stages}
    left = float(chosen["minutes"])
    try:
        if len(stages) == 1:
            campaigns[stages[0]].run(int(chosen["n"]) or GOALS[stages[0]], left)
        while len(stages) > 1 and left > 0:
            for stage, campaign in campaigns.items():
                turn = min(_TURN_MINUTES[stage], left)
                campaign.run(GOALS[stage], turn)
                left -= turn
    except KeyboardInterrupt:
        print("stopped; the next run goes on from here")
    found = [path for campaign in campaigns.values() for path in campaign.found()]
    for path in found:
        print(path)
    return 1 if found else 0


def _again(stage: str, path: Path) -> int:
    target = Target(stage)
    failure = target.examine(path.read_bytes())
    target.close()
    print(f"{failure.kind}\n{failure.detail}" if failure else f"no failure: {target.reached}")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
