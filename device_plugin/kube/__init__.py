"""The node agent's clients of the API server: its GPU objects, and events on users' pods."""

from importlib import metadata

from gpu_operator.api import lazy_packages

lazy_packages.install("kubernetes", __version__=metadata.version("kubernetes"))
lazy_packages.install("kubernetes.config")
lazy_packages.install("kubernetes.utils")
lazy_packages.install("yaml")
