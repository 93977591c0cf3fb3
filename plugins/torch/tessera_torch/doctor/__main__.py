"""``python -m tessera_torch.doctor [-o text|json]``; exits with 1 if something does not work.

PyTorch is imported in a process of its own, because a library of the wrong kind can end it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tessera_torch import settings
from tessera_torch.doctor import finding, packages
from tessera_torch.doctor.finding import ERROR, Finding

_TIMEOUT_S = 600
_CHILD = "--with-torch"


def main(arguments: list[str]) -> int:
    """Print the findings; return the exit status."""
    parser = argparse.ArgumentParser(prog="tessera_torch.doctor", description=__doc__)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument(_CHILD, type=int, metavar="DESCRIPTOR", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.with_torch is not None:
        from tessera_torch.doctor import process

        with open(options.with_torch, "w", encoding="utf-8") as answer:
            answer.write(finding.as_json(process.check_all()))
        return 0
    findings = packages.check_all()
    errors = {outcome.check for outcome in findings if outcome.state == ERROR}
    if "torch" not in errors:
        # PyTorch executes what is in the caches: with a bad one, the child gets empty ones.
        with tempfile.TemporaryDirectory(prefix="tessera-torch-") as empty:
            folders = {name: Path(empty, name) for name in settings.CACHE_VARIABLES}
            bad = "cache" in errors
            findings += _check_in_child(settings.environment_of_caches(folders) if bad else None)
    print(finding.as_json(findings) if options.output == "json" else finding.as_text(findings))
    return 1 if finding.has_error(findings) else 0


def _check_in_child(environment: Mapping[str, str] | None) -> list[Finding]:
    """Return the findings of a child, which writes them into a file of their own: what is imported
    may print.
    """
    with tempfile.TemporaryFile() as answer:
        descriptor = answer.fileno()
        command = [sys.executable, "-m", "tessera_torch.doctor", _CHILD, str(descriptor)]
        try:
            child = subprocess.run(
                command,
                env=environment,
                pass_fds=(descriptor,),
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return [Finding("import", ERROR, f"PyTorch did not compute within {_TIMEOUT_S} s")]
        answer.seek(0)
        content = answer.read()
    try:
        document = json.loads(content)
    except ValueError:
        last = (child.stderr.strip().splitlines() or ["no output"])[-1]
        return [Finding("import", ERROR, f"Python ended with status {child.returncode}: {last}")]
    return [Finding(**fields) for fields in document["findings"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
