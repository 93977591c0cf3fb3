"""mig-parted's configuration file, ``version: v1``, as the MIG manager reads it from a ConfigMap.

A document that cannot be read as a whole is refused as a whole. It comes from whoever may write
ConfigMaps beside the operator; still its size, its depth and its numbers are bounded here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import yaml

KEY: Final = "config.yaml"
"""The key of a ConfigMap that has the document."""
VENDOR: Final = 0x10DE
_LONGEST: Final = 64 << 10  # characters of a document
_MOST_CONFIGS: Final = 1024
_MOST_ENTRIES: Final = 64  # of one configuration
_MOST_TOGETHER: Final = 4096
_MOST_FILTERS: Final = 256
_MOST_INSTANCES: Final = 64
_LAST_INDEX: Final = 63
_LONG_NUMBER: Final = 1 << 64
_FIELDS: Final = frozenset(("device-filter", "devices", "mig-enabled", "mig-devices"))


class FormatError(ValueError):
    """A document that is not in this format; names the place."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What some GPUs of a node get: ``devices`` None means all of them, no filter any board."""

    mig_enabled: bool
    instances: tuple[tuple[str, int], ...] = ()  # profile and number
    devices: frozenset[int] | None = None
    filters: frozenset[int] = frozenset()  # PCI device id << 16 | vendor

    def covers(self, index: int, pci_device_id: int) -> bool:
        """Return whether it is for the GPU with this index, of a board with this PCI device id."""
        mine = pci_device_id << 16 | VENDOR
        return (self.devices is None or index in self.devices) and (
            not self.filters or mine in self.filters
        )


@dataclass(frozen=True, slots=True)
class Configs:
    """The configurations of a document by name; with a ``problem`` there are none."""

    named: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    problem: str = ""


def of_config_map(document: Mapping[str, Any]) -> Configs | None:
    """Read a ConfigMap; None if it has no ``config.yaml``, and so is none of the MIG manager."""
    text = (document.get("data") or {}).get(KEY)
    if not isinstance(text, str):
        return None
    try:
        return Configs(read(text))
    except FormatError as err:
        return Configs(problem=f"{KEY}: {err}")


@lru_cache(maxsize=4)  # every list of ConfigMaps brings the same text again
def read(text: str) -> Mapping[str, tuple[Entry, ...]]:
    """Read a document.

    Raises:
        FormatError: naming the place and what is wrong there.
    """
    if len(text) > _LONGEST:
        raise FormatError(f"{len(text)} characters; {_LONGEST} at most are read")
    try:
        document = yaml.safe_load(text)  # not in C: libyaml's reader dies of too deep a nesting
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise FormatError(f"no YAML: {' '.join(str(err).split())[:300]}") from None
    top = _mapping(document, "the document")
    if top.get("version") != "v1":
        raise FormatError(f"version {_short(top.get('version'))}; v1 is read here")
    configs = _mapping(top.get("mig-configs"), "mig-configs")
    if len(configs) > _MOST_CONFIGS:
        raise FormatError(f"mig-configs has {len(configs)} names; {_MOST_CONFIGS} at most")
    together = sum(len(found) for found in configs.values() if isinstance(found, list))
    if together > _MOST_TOGETHER:  # YAML's aliases make a short text long
        raise FormatError(f"mig-configs has {together} entries; {_MOST_TOGETHER} at most")
    return {_name(name): _entries(name, found) for name, found in configs.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 63:
        raise FormatError(f"mig-configs: {_short(name)} is no value of a label")
    return name


def _entries(name: str, found: object) -> tuple[Entry, ...]:
    where = f"mig-configs.{name}"
    if not isinstance(found, list) or not found:
        raise FormatError(f"{where} is no list of entries")
    if len(found) > _MOST_ENTRIES:
        raise FormatError(f"{where} has {len(found)} entries; {_MOST_ENTRIES} at most")
    return tuple(_entry(f"{where}[{i}]", entry) for i, entry in enumerate(found))


def _entry(where: str, found: object) -> Entry:
    entry = _mapping(found, where)
    unknown = [key for key in entry if key not in _FIELDS]
    if unknown:
        raise FormatError(f"{where}: unknown field {_short(unknown[0])}")
    enabled = entry.get("mig-enabled")
    if not isinstance(enabled, bool):
        raise FormatError(f"{where}.mig-enabled is neither true nor false")
    instances = _instances(f"{where}.mig-devices", entry.get("mig-devices"))
    if instances and not enabled:
        raise FormatError(f"{where}: mig-devices, but mig-enabled is false")
    return Entry(
        enabled,
        instances,
        _devices(f"{where}.devices", entry.get("devices")),
        _filters(f"{where}.device-filter", entry.get("device-filter")),
    )


def _instances(where: str, found: object) -> tuple[tuple[str, int], ...]:
    wanted = _mapping({} if found is None else found, where)
    result = []
    for profile, count in wanted.items():
        if not isinstance(profile, str) or not 0 < len(profile) <= 63:
            raise FormatError(f"{where}: {_short(profile)} is no profile")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= 64:
            raise FormatError(f"{where}.{profile}: {_short(count)} is no number from 0 to 64")
        if count:
            result.append((profile, count))
    if len(result) > _MOST_INSTANCES:
        raise FormatError(f"{where} has {len(result)} profiles; {_MOST_INSTANCES} at most")
    return tuple(result)


def _devices(where: str, found: object) -> frozenset[int] | None:
    if found == "all":
        return None
    if not isinstance(found, list) or not found or len(found) > _LAST_INDEX + 1:
        raise FormatError(f"{where} is neither all nor a list of indices")
    for index in found:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= _LAST_INDEX:
            raise FormatError(f"{where}: {_short(index)} is no index of a GPU")
    return frozenset(found)


def _filters(where: str, found: object) -> frozenset[int]:
    values = [found] if isinstance(found, str) else [] if found is None else found
    if not isinstance(values, list) or len(values) > _MOST_FILTERS:
        raise FormatError(f"{where} is neither a PCI id nor a list of them")
    result = set()
    for value in values:
        try:
            result.add(int(value, 16) if isinstance(value, str) and len(value) <= 10 else -1)
        except ValueError:
            result.add(-1)
        if -1 in result:
            raise FormatError(f"{where}: {_short(value)} is no PCI id such as 0x233010DE")
    return frozenset(result)


def _mapping(found: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(found, dict):
        raise FormatError(f"{where} is no mapping")
    return found


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= _LONG_NUMBER:
        return "a number too long to read"  # nor does Python write one of 4,300 digits
    return repr(value)[:80] if isinstance(value, str | int | float | None) else "what is there"
