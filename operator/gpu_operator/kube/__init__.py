"""Access to Kubernetes: actions as values, a port, and the adapter that sends requests.

No other package of the operator has a Kubernetes client.
"""

from importlib import metadata

from gpu_operator.api import lazy_packages

_VERSION = metadata.version("kubernetes")
lazy_packages.install("kubernetes", __version__=_VERSION)
lazy_packages.install("kubernetes.aio", __version__=_VERSION)
