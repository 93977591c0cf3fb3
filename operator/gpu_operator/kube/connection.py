"""Connection to the API server, with the pod's service account or KUBECONFIG."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import load_incluster_config
from kubernetes.aio.config.kube_config import (
    KUBE_CONFIG_DEFAULT_LOCATION,
    list_kube_config_contexts,
    load_kube_config,
)

from gpu_operator import errors
from gpu_operator.api import documents

_USER_AGENT = "tessera-operator"
_CONSOLE_USER_AGENT = "tessera-console"
# The library checks neither the syntax nor the types of a kubeconfig before it uses its fields.
_BROKEN = (
    ConfigException,
    OSError,
    yaml.YAMLError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
)


async def api_client() -> ApiClient:
    """Return a client for the API server; it connects on first use.

    Raises:
        ConfigError: there is neither a service account nor a kubeconfig.
    """
    configuration = Configuration()
    try:
        load_incluster_config(configuration)
    except ConfigException as no_account:
        try:
            await load_kube_config(client_configuration=configuration, persist_config=False)
        except (ConfigException, OSError) as err:
            why = f"no access to a cluster: {no_account}; {err}"
            raise errors.ConfigError(why) from err
    client = ApiClient(configuration)
    client.user_agent = _USER_AGENT
    return client


async def kubeconfig_client(path: Path | None, context: str | None) -> tuple[ApiClient, str]:
    """Return a client for a context of the user's kubeconfig, and the context's name.

    Without ``path`` it is KUBECONFIG or the default file, and without ``context`` the current one.

    Raises:
        ConfigError: the file or the context does not exist, or is invalid.
    """
    configuration = Configuration()
    file = _file_name(path)
    try:
        await load_kube_config(
            config_file=file,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
        current = list_kube_config_contexts(config_file=file)[1]["name"]
    except _BROKEN as err:
        raise errors.ConfigError(f"no access to a cluster: {_describe(err)}") from err
    client = ApiClient(configuration)
    client.user_agent = _CONSOLE_USER_AGENT
    return client, context or str(current)


@contextlib.asynccontextmanager
async def open_kubeconfig(path: Path | None, context: str | None) -> AsyncIterator[ApiClient]:
    """Connect as ``kubeconfig_client`` does, and close the connections at the end.

    Raises:
        ConfigError: the file or the context does not exist, or is invalid.
    """
    client, _ = await kubeconfig_client(path, context)
    try:
        yield client
    finally:
        await client.close()


def kubeconfig_namespace(path: Path | None, context: str | None) -> str:
    """Return the namespace of a context, as kubectl chooses it.

    Raises:
        ConfigError: the file or the context does not exist, or is invalid.
    """
    try:
        contexts, current = list_kube_config_contexts(config_file=_file_name(path))
    except _BROKEN as err:
        raise errors.ConfigError(f"no access to a cluster: {_describe(err)}") from err
    chosen = (
        current if context is None else next((c for c in contexts if c["name"] == context), None)
    )
    if chosen is None:
        raise errors.ConfigError(f"no access to a cluster: the kubeconfig has no context {context}")
    return str((chosen.get("context") or {}).get("namespace") or "default")


def has_kubeconfig() -> bool:
    """Return whether KUBECONFIG is set, or the default file exists."""
    default = Path("~/.kube/config").expanduser()
    return Path(KUBE_CONFIG_DEFAULT_LOCATION) != default or default.exists()


def _describe(err: Exception) -> str:
    """Return a message; of most errors only the type, as their texts can quote credentials."""
    if isinstance(err, ConfigException | OSError):
        return str(err)
    mark = getattr(err, "problem_mark", None)
    line = f" in line {mark.line + 1}" if mark is not None else ""
    return f"the kubeconfig is invalid: {type(err).__name__}{line}"


def _file_name(path: Path | None) -> str | None:
    if path is not None and not path.is_file():
        raise errors.ConfigError(f"no access to a cluster: {path}: no such file")
    return str(path) if path is not None else None


@contextlib.contextmanager
def translate_errors(request_label: str) -> Iterator[None]:
    """Translate exceptions of a request to errors of this package.

    The errors' messages begin with ``request_label``.
    """
    try:
        yield
    except ApiException as err:
        raise _error(err.status)(f"{request_label}: {error_message(err)}") from err
    except TimeoutError as err:  # has no text of its own
        text = f"{request_label}: timeout: the API server is busy, or cannot be reached"
        raise errors.Unreachable(text) from err
    # The library re-reads the account's token every minute, which may fail in any request.
    except (aiohttp.ClientError, OSError, ConfigException, ValueError) as err:
        raise errors.Unreachable(f"{request_label}: {type(err).__name__}: {err}") from err


def error_message(err: ApiException) -> str:
    """Return the message in the API server's response.

    If a proxy responded instead, the result is the status code and the start of its response.
    """
    message = error_status(err).get("message")
    return str(message) if message else f"{err.status} {str(err.body or err.reason).strip()[:200]}"


def error_status(err: ApiException) -> dict[str, Any]:
    """Return the ``Status`` object of an error response; empty if it has none."""
    with contextlib.suppress(TypeError, ValueError):
        status = documents.read(err.body)
        if isinstance(status, dict):
            return status
    return {}


def _error(code: int | None) -> type[errors.KubeError]:
    match code:
        case 404:
            return errors.NotFound
        case 409:
            return errors.Conflict
        case 400 | 401 | 403 | 405 | 422:
            return errors.Refused
        case _:
            return errors.Unreachable
