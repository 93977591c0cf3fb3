"""The outcome of a mutation, derived from pytest's output."""

import re
from dataclasses import dataclass
from enum import StrEnum

STAGE_TIMED_OUT = b"\n+++ Timeout +++ of the stage\n"
"""Appended to the output of tests that were ended from outside, in pytest-timeout's words."""
_LAST_LINES = 15
# A test ran out of time, a process did not react in time, or its C program was ended by its
# alarm().
_CLOCK = re.compile(r"time(?:d |-)?out|assert -14 ==", re.IGNORECASE)


class Verdict(StrEnum):
    """The verdict on a mutation."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    """Killed by a time limit alone: it hangs, or the machine was too busy. A person must decide
    which.
    """
    SURVIVED = "SURVIVED"
    INVALID = "invalid"
    """It does not compile, so it gives no information about the tests."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first test that failed, whether it timed out, and the end of its output."""

    test: str
    timed_out: bool
    last_words: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a mutation, and the seconds until it was known."""

    verdict: Verdict
    seconds: float
    failure: Failure | None


def verdict_of(failure: Failure | None) -> Verdict:
    """Return the verdict for a mutation that compiles."""
    if failure is None:
        return Verdict.SURVIVED
    return Verdict.TIMED_OUT if failure.timed_out else Verdict.KILLED


def failure_in(output: str) -> Failure:
    """Find the first failed test and its error in pytest's output."""
    last_words = "\n".join(output.splitlines()[-_LAST_LINES:])
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - (.*))?$", output, re.MULTILINE)
    if found is not None:
        return Failure(found[1], _CLOCK.search(found[2] or "") is not None, last_words)
    # pytest-timeout or a crash ended the process: the output ends in the test that was running.
    running = re.findall(r'File "[^"]*?(tests/[^"]+)", line \d+,? in (test_\w+)', output)
    test = "::".join(running[-1]) if running else "pytest itself"
    return Failure(test, "+ Timeout +" in output, last_words)
