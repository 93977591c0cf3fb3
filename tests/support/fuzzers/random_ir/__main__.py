"""``make fuzz ir=1``: random LLVM IR, on the host and as PTX on the interpreter and the JIT.

    make fuzz ir=1                      sequence 1, from where it stopped, until interrupted
    make fuzz ir=1 seed=7 n=1000        1,000 more programs of sequence 7
    make fuzz ir=1 minutes=10 jobs=1    for ten minutes, on one core
    make fuzz ir=1 plans=4              each under four plans in addition to those of launches
    make fuzz ir=1 kernel=.fuzz/ir/4294967301/shrunk.ll    one program again (also by its number)

LLVM emits both the host's code and the PTX, so no other compiler is needed. Exits with 1 if a
program failed.
"""

import sys
from pathlib import Path

from support.fuzzers.fuzzing import command
from support.fuzzers.fuzzing.campaign import Campaign, Options
from support.fuzzers.random_ir import programs
from support.fuzzers.random_ir.campaign import RandomIr

_DEFAULTS = {"ir": "1", **command.DEFAULTS, "plans": "1"}
_MAX_STAGE_SECONDS = 300


def main(arguments: list[str]) -> int:
    """Run with ``name=value`` arguments, in which empty values mean the defaults; return the exit
    status.
    """
    chosen = command.parse_arguments(arguments, _DEFAULTS)
    if chosen is None:
        return 2
    subject = RandomIr(int(chosen["plans"]), float(chosen["shrink"]))
    if chosen["kernel"]:
        return _again(chosen["kernel"], subject)
    options = Options(
        sequence=int(chosen["seed"]),
        n=int(chosen["n"]),
        minutes=float(chosen["minutes"]),
        jobs=int(chosen["jobs"]),
        shrink_seconds=float(chosen["shrink"]),
        folder=Path(chosen["folder"]) / "ir",
    )
    totals = command.totals_of(Campaign(options, subject=subject))
    if totals is None:
        return 130
    for seed in totals.failed:
        print(f"  make fuzz ir=1 kernel={seed}")
    return 1 if totals.failed else 0


def _again(which: str, subject: RandomIr) -> int:
    if which.isdigit():
        program = programs.generate(int(which))
        print(program.text)
    else:
        program = programs.parse(Path(which).read_text())
    print(subject.describe(program))
    with subject.workers(1, _MAX_STAGE_SECONDS) as pool:
        (_, report) = next(pool.examine(iter([program])))
    return command.print_report(report, report.refused or f"no finding: {report.runs} native runs")


if __name__ == "__main__":
    command.stop_on_signal()
    sys.exit(main(sys.argv[1:]))
