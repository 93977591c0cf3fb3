"""The reason of a test that did not pass: the first thing that was missing, or a wrong value."""

import re
from collections.abc import Sequence
from enum import StrEnum

from benchmarks.clients.client import Known
from benchmarks.clients.outcomes import Outcome

_REFUSED, _NO_BINARY = "801", "209"
_IGNORED_CALLS = frozenset(
    {"cuGetExportTable", "cuGetProcAddress", "cuStreamQuery", "cuEventQuery"}
)
_OUR_LINE = re.compile(r"^tessera: (.+)$", re.MULTILINE)
_PTXAS_LINE = re.compile(r"^ptxas \S+, line \d+; error *: ([^:;{]+)", re.MULTILINE)
_VARYING = re.compile(r"0x[0-9a-f]+|'[^']*'|\"[^\"]*\"|\b\d+\b|<ptx>:\S+")
_FOLDER = re.compile(r"/\S*?/out/clients/(?:checkouts/[^/\s]+/)?")
_CUDA_ERROR = re.compile(r"\b(CUDA_ERROR_\w+|NVML_ERROR_\w+|cudaError\w+)\b")
_VALUES_DIFFER = re.compile(
    r"not (?:almost )?equal|Mismatched elements|Not equal to tolerance|are not close"
    r"|^AssertionError: \S+ != \S|^AssertionError: \[?(?:array|-?[\d.]+)"
    r"|assert (?:np\.|all|\(?-?[\d.]+ [=<>!]=)",
    re.MULTILINE,
)


class Kind(StrEnum):
    """What a miss means for the product."""

    UNSUPPORTED = "unsupported call"
    DRIVER_ERROR = "error of the driver"
    WRONG_VALUE = "wrong value"
    CRASHED = "process ended"
    TIMED_OUT = "time limit"
    KNOWN = "explained"
    OTHER = "other"


_WITHOUT_RESULT = {
    "timed out": (Kind.TIMED_OUT, "the test exceeded its time limit"),
    "crashed": (Kind.CRASHED, "the test's process ended"),
}


def find_reason(outcome: Outcome, known_reasons: Sequence[Known] = ()) -> tuple[Kind, str]:
    """Return the kind of a miss and a short reason, equal for misses of one cause."""
    if outcome.outcome in _WITHOUT_RESULT:
        return _WITHOUT_RESULT[outcome.outcome]
    text = "\n".join((outcome.headline, outcome.message, outcome.output, *outcome.calls))
    for entry in known_reasons:
        if re.search(entry.pattern, f"{outcome.test}\n{text}"):
            return Kind.KNOWN, entry.reason
    failed = [call.split("=") for call in outcome.calls]
    failed = [[_plain(name), code] for name, code in failed if _plain(name) not in _IGNORED_CALLS]
    for name, code in failed:
        if code == _REFUSED:
            return Kind.UNSUPPORTED, f"`{name}`{_detail_of(name, outcome)}"
    for name, code in failed:
        if code == _NO_BINARY:
            return Kind.UNSUPPORTED, f"`{name}` of a cubin (machine code)"
    if match := _CUDA_ERROR.search(outcome.headline):
        by = f" from `{failed[-1][0]}`" if failed else ""
        line = _our_line(outcome)
        return Kind.DRIVER_ERROR, f"`{match[1]}`{by}{': ' + line if line else ''}"
    if match := _PTXAS_LINE.search(text):
        return Kind.UNSUPPORTED, f"`ptxas`: {_shorten(match[1])}"
    headline = outcome.headline.strip()
    if headline.startswith(("AssertionError", "assert")):
        kind = Kind.WRONG_VALUE if _VALUES_DIFFER.search(headline) else Kind.OTHER
        return kind, _shorten(headline)
    return Kind.OTHER, _shorten(headline or outcome.message)


def without_folder(text: str) -> str:
    """Return a text with the paths of files in ``out/clients`` relative to the client's folder."""
    return _FOLDER.sub("", text)


def find_skip_reason(outcome: Outcome) -> str:
    """Return the reason that the suite gives for a skip, equal for skips of one cause."""
    return _shorten(outcome.message.removeprefix("Skipped: "))


def _plain(name: str) -> str:
    """Return a function's name without the suffixes of its version and default stream."""
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name)


def _detail_of(name: str, outcome: Outcome) -> str:
    line = _our_line(outcome)
    return "" if not line or re.match(r"cu\w+ is not supported", line) else f": {line}"


def _our_line(outcome: Outcome) -> str:
    match = _OUR_LINE.search(outcome.output)
    return _shorten(match[1]) if match else ""


def _shorten(text: str) -> str:
    """Return the first line of a message, without what differs between misses of one cause."""
    line = next((line for line in text.splitlines() if line.strip()), "no message")
    return _VARYING.sub("…", without_folder(line.strip()))[:140]
