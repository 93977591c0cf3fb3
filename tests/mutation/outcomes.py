"""What became of a mutation, read out of what pytest printed."""

import re
from dataclasses import dataclass
from enum import StrEnum

STAGE_TIMED_OUT = b"\n+++ Timeout +++ of the stage\n"
"""Written below the output of tests that were ended from outside, in pytest-timeout's words."""
_LAST_LINES = 15
# A test ran out of time, waited in vain for a process, or its C program was ended by its alarm().
_CLOCK = re.compile(r"time(?:d |-)?out|assert -14 ==", re.IGNORECASE)


class Verdict(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    """Killed by the clock alone: it hangs, or the machine was too busy. A person must say which."""
    SURVIVED = "SURVIVED"
    INVALID = "invalid"
    """It does not compile, which says nothing about the tests."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first test that failed, whether time ran out for it, and the end of what it printed."""

    test: str
    timed_out: bool
    last_words: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutation, and after how many seconds."""

    verdict: Verdict
    seconds: float
    failure: Failure | None


def verdict_of(failure: Failure | None) -> Verdict:
    """Return what tests say of a mutation that compiles."""
    if failure is None:
        return Verdict.SURVIVED
    return Verdict.TIMED_OUT if failure.timed_out else Verdict.KILLED


def failure_in(output: str) -> Failure:
    """Read out of pytest's output which test failed first, and of what."""
    last_words = "\n".join(output.splitlines()[-_LAST_LINES:])
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - (.*))?$", output, re.MULTILINE)
    if found is not None:
        return Failure(found[1], _CLOCK.search(found[2] or "") is not None, last_words)
    # The process ended, by pytest-timeout or by a crash: what is left is where it was.
    running = re.findall(r'File "[^"]*?(tests/[^"]+)", line \d+,? in (test_\w+)', output)
    test = "::".join(running[-1]) if running else "pytest itself"
    return Failure(test, "+ Timeout +" in output, last_words)
