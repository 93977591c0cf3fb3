"""The package imports only the standard library, and its public names exist."""

import importlib
import subprocess
import sys

import pytest

PROBE = """
import sys
before = set(sys.modules)
import mig.planner, mig.spec, mig.geometry, mig.errors
roots = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(roots - set(sys.stdlib_module_names)))
"""


def test_only_the_standard_library_is_imported():
    result = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["boards", "mig"]


@pytest.mark.parametrize("name", ["mig.geometry", "mig.spec", "mig.planner"])
def test_public_names_exist_and_are_listed_once(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None
