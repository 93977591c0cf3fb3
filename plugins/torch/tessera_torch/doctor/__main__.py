"""``python -m tessera_torch.doctor [-o text|json]``; exits with 1 if something does not work.

PyTorch is imported in a process of its own, because a library of the wrong kind can end it.
"""

import argparse
import json
import subprocess
import sys

from tessera_torch.doctor import finding, packages
from tessera_torch.doctor.finding import ERROR, Finding

_TIMEOUT_S = 600
_CHILD = "--with-torch"


def main(arguments: list[str]) -> int:
    """Print the findings; return the exit status."""
    parser = argparse.ArgumentParser(prog="tessera_torch.doctor", description=__doc__)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument(_CHILD, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.with_torch:
        from tessera_torch.doctor import process

        print(finding.as_json(process.check_all()))
        return 0
    findings = packages.check_all()
    if not any(one.check == "torch" and one.state == ERROR for one in findings):
        findings += _check_in_child()
    print(finding.as_json(findings) if options.output == "json" else finding.as_text(findings))
    return 1 if finding.has_error(findings) else 0


def _check_in_child() -> list[Finding]:
    command = [sys.executable, "-m", "tessera_torch.doctor", _CHILD]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return [Finding("import", ERROR, f"PyTorch did not compute within {_TIMEOUT_S} s")]
    try:
        document = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return [Finding("import", ERROR, f"Python ended with status {done.returncode}: {last}")]
    return [Finding(**one) for one in document["findings"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
