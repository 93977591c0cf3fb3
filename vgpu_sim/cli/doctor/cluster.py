"""Loads the console's checks of a cluster by their name, as ``tessera ui`` loads its pages.

The console is a package above this one, with an extra of its own: nothing here depends on it.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from diagnosis.findings import OK, Finding

_CONSOLE: Final = "console.support.entry"
_ABSENT: Final = "not checked: {} is not installed; `pip install 'tessera[console]'` has it"


def check_all(kubeconfig: Path | None, context: str | None, namespace: str = "") -> list[Finding]:
    """Return the findings about the cluster of the kubeconfig, or one that states why not."""
    module = _load()
    if isinstance(module, str):
        return [Finding("cluster", "access", OK, module)]
    cluster_findings: list[Finding] = module.check(kubeconfig, context, namespace)
    return cluster_findings


def collect(kubeconfig: Path | None, context: str | None, namespace: str = "") -> Mapping[str, str]:
    """Return the files of a support bundle about the cluster, by name."""
    module = _load()
    if isinstance(module, str):
        return {"cluster/errors.txt": f"{module}\n"}
    files: Mapping[str, str] = module.collect(kubeconfig, context, namespace)
    return files


def _load() -> Any:
    try:
        return importlib.import_module(_CONSOLE)
    except ImportError as err:
        return _ABSENT.format(err.name or err)
