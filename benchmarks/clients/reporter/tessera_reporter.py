"""A pytest plugin that writes one JSON line per event, with the driver calls that failed.

It runs inside a client's own environment and imports nothing but pytest. A process that ends in the
middle of a test leaves a line ``started`` without its ``finished``.
"""

import json
import os
import re

import pytest

RESULTS, ONLY = "TESSERA_CLIENT_RESULTS", "TESSERA_CLIENT_ONLY"
_MESSAGE_LENGTH, _OUTPUT_LENGTH, _CALLS = 6000, 3000, 40
_TRACE_LINE = re.compile(r" (\w+)\(.*\) = (\d+) \d+ ns$")


def _write(**event):
    with open(os.environ[RESULTS], "a", encoding="utf-8") as results:
        results.write(json.dumps(event) + "\n")


def _read_only():
    """Return the ids of the tests to run; none means all."""
    path = os.environ.get(ONLY)
    if not path:
        return None
    with open(path, encoding="utf-8") as only:
        return set(json.load(only))


def _take_failed_calls():
    """Return the distinct failed calls in the driver's trace, in order, and empty the trace."""
    path = os.environ.get("TESSERA_TRACE")
    if not path or not os.path.exists(path):
        return []
    calls = {}
    with open(path, encoding="utf-8", errors="replace") as trace:
        for line in trace:
            match = _TRACE_LINE.search(line)
            if match and match[2] != "0":
                calls.setdefault(f"{match[1]}={match[2]}")
    os.truncate(path, 0)
    return list(calls)[:_CALLS]


class Reporter:
    """Collects the reports of one test until it is finished."""

    def __init__(self):
        self.reports = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        only = _read_only()
        _write(event="collected", tests=[item.nodeid for item in items])
        if only is not None:
            config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in only])
            items[:] = [item for item in items if item.nodeid in only]

    def pytest_collectreport(self, report):
        if report.failed:
            _write(
                event="broken", test=report.nodeid, message=str(report.longrepr)[-_MESSAGE_LENGTH:]
            )
        elif report.skipped:
            _write(event="left out", test=report.nodeid, message=_reason(report))

    def pytest_runtest_logstart(self, nodeid):
        self.reports = []
        _take_failed_calls()
        _write(event="started", test=nodeid)

    def pytest_runtest_logreport(self, report):
        self.reports.append(report)

    def pytest_runtest_logfinish(self, nodeid):
        _write(
            event="finished", test=nodeid, calls=_take_failed_calls(), **_summarize(self.reports)
        )

    def pytest_sessionfinish(self, exitstatus):
        _write(event="ended", status=int(exitstatus))


def _reason(report):
    longrepr = report.longrepr
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)[-_MESSAGE_LENGTH:]


def _summarize(reports):
    """Return a test's outcome, message, output and seconds from the reports of its phases."""
    seconds = round(sum(report.duration for report in reports), 3)
    failed = [report for report in reports if report.failed]
    if failed:
        first = failed[0]
        crash = getattr(first.longrepr, "reprcrash", None)
        text = str(first.longrepr)
        output = "\n".join(text for name, text in first.sections if "stderr" in name)
        return {
            "outcome": "failed" if first.when == "call" else "error",
            "headline": getattr(crash, "message", "")[:1000],
            "message": text[-_MESSAGE_LENGTH:],
            "output": output[-_OUTPUT_LENGTH:],
            "seconds": seconds,
        }
    skipped = [report for report in reports if report.skipped]
    if skipped:
        expected = hasattr(skipped[0], "wasxfail")
        reason = skipped[0].wasxfail if expected else _reason(skipped[0])
        return {
            "outcome": "xfailed" if expected else "skipped",
            "message": reason,
            "seconds": seconds,
        }
    return {"outcome": "passed", "message": "", "seconds": seconds}


def pytest_configure(config):
    if os.environ.get(RESULTS):
        config.pluginmanager.register(Reporter(), "tessera-reporter-events")
