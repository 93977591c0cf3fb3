"""Checks Tessera's and the C opponents' results at the tiny size, inside a slice; prints JSON.

``python -m benchmarks.exec.check [CONTEST]...`` under ``tessera run``. A race checks the other
contenders.
"""

import json
import sys

from benchmarks.exec.catalogue import CONTESTS
from benchmarks.exec.client import Contenders
from benchmarks.exec.contest import NATIVE, OURS


def main() -> None:
    """Print for each contest which contenders are right, wrong and absent."""
    verdicts = {}
    for name in sys.argv[1:] or CONTESTS:
        contenders = Contenders(
            CONTESTS[name], quick=True, only=frozenset({OURS, NATIVE}), timed=False
        )
        contenders.enter_all()
        verdicts[name] = {
            "right": list(contenders.works),
            "wrong": contenders.wrong,
            "missing": contenders.missing,
        }
    print(json.dumps(verdicts))


if __name__ == "__main__":
    main()
