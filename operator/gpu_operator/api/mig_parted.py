"""Parser for mig-parted's configuration file (``version: v1``), which is stored in a ConfigMap.

An invalid document is rejected as a whole. Only users with write access to the operator's
ConfigMaps can supply one; nevertheless, its size, nesting and numbers are limited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import yaml

KEY: Final = "config.yaml"
"""The ConfigMap's key under which the document is stored."""
VENDOR: Final = 0x10DE
_LONGEST: Final = 64 << 10  # characters of a document
_MOST_CONFIGS: Final = 1024
_MOST_ENTRIES: Final = 64  # per configuration
_MOST_TOGETHER: Final = 4096
_MOST_FILTERS: Final = 256
_MOST_INSTANCES: Final = 64
_LAST_INDEX: Final = 63
_LONG_NUMBER: Final = 1 << 64
_FIELDS: Final = frozenset(("device-filter", "devices", "mig-enabled", "mig-devices"))


class FormatError(ValueError):
    """A mig-parted document is invalid; the message names the position."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a mig-parted configuration: the instances that it requests for some GPUs.

    If ``devices`` is None, the entry selects all GPUs of the node. If ``filters`` is empty, it
    selects every board.
    """

    mig_enabled: bool
    instances: tuple[tuple[str, int], ...] = ()  # profile and count
    devices: frozenset[int] | None = None
    filters: frozenset[int] = frozenset()  # PCI device id << 16 | vendor

    def covers(self, index: int, pci_device_id: int) -> bool:
        """Return whether the entry applies to the GPU with this index and PCI device id."""
        mine = pci_device_id << 16 | VENDOR
        return (self.devices is None or index in self.devices) and (
            not self.filters or mine in self.filters
        )


@dataclass(frozen=True, slots=True)
class Configs:
    """The configurations of a mig-parted document, by name.

    If the document is invalid, ``problem`` is the reason and there are no configurations.
    """

    named: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    problem: str = ""


def read_config_map(document: Mapping[str, Any]) -> Configs | None:
    """Parse a ConfigMap. Return None if it has no ``config.yaml`` and thus no configurations."""
    text = (document.get("data") or {}).get(KEY)
    if not isinstance(text, str):
        return None
    try:
        return Configs(read(text))
    except FormatError as err:
        return Configs(problem=f"{KEY}: {err}")


@lru_cache(maxsize=4)  # each list of ConfigMaps returns the same text
def read(text: str) -> Mapping[str, tuple[Entry, ...]]:
    """Parse a mig-parted document; return its configurations, by name.

    Raises:
        FormatError: the document is invalid; the message names the position.
    """
    if len(text) > _LONGEST:
        raise FormatError(f"the document has {len(text)} characters; the limit is {_LONGEST}")
    try:
        document = yaml.safe_load(text)  # not libyaml's parser: deep nesting crashes it
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise FormatError(f"not YAML: {' '.join(str(err).split())[:300]}") from None
    top = _mapping(document, "the document")
    if top.get("version") != "v1":
        raise FormatError(f"version {_short(top.get('version'))} is not supported; use 'v1'")
    configs = _mapping(top.get("mig-configs"), "mig-configs")
    if len(configs) > _MOST_CONFIGS:
        raise FormatError(f"mig-configs has {len(configs)} names; the limit is {_MOST_CONFIGS}")
    together = sum(len(entries) for entries in configs.values() if isinstance(entries, list))
    if together > _MOST_TOGETHER:  # YAML aliases expand a short text
        raise FormatError(f"mig-configs has {together} entries; the limit is {_MOST_TOGETHER}")
    return {_name(name): _entries(name, entries) for name, entries in configs.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 63:
        raise FormatError(f"mig-configs: {_short(name)} is not a valid label value")
    return name


def _entries(name: str, raw_entries: object) -> tuple[Entry, ...]:
    where = f"mig-configs.{name}"
    if not isinstance(raw_entries, list) or not raw_entries:
        raise FormatError(f"{where} is not a list of one or more entries")
    if len(raw_entries) > _MOST_ENTRIES:
        raise FormatError(f"{where} has {len(raw_entries)} entries; the limit is {_MOST_ENTRIES}")
    return tuple(_entry(f"{where}[{i}]", entry) for i, entry in enumerate(raw_entries))


def _entry(where: str, raw_entry: object) -> Entry:
    entry = _mapping(raw_entry, where)
    unknown = [key for key in entry if key not in _FIELDS]
    if unknown:
        raise FormatError(f"{where}: unknown field {_short(unknown[0])}")
    enabled = entry.get("mig-enabled")
    if not isinstance(enabled, bool):
        raise FormatError(f"{where}.mig-enabled is neither true nor false")
    instances = _instances(f"{where}.mig-devices", entry.get("mig-devices"))
    if instances and not enabled:
        raise FormatError(f"{where}: mig-devices is set, but mig-enabled is false")
    return Entry(
        enabled,
        instances,
        _devices(f"{where}.devices", entry.get("devices")),
        _filters(f"{where}.device-filter", entry.get("device-filter")),
    )


def _instances(where: str, raw_counts: object) -> tuple[tuple[str, int], ...]:
    counts_by_profile = _mapping({} if raw_counts is None else raw_counts, where)
    result = []
    for profile, count in counts_by_profile.items():
        if not isinstance(profile, str) or not 0 < len(profile) <= 63:
            raise FormatError(f"{where}: {_short(profile)} is not a profile name")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= 64:
            raise FormatError(f"{where}.{profile}: {_short(count)} is not a number from 0 to 64")
        if count:
            result.append((profile, count))
    if len(result) > _MOST_INSTANCES:
        raise FormatError(f"{where} has {len(result)} profiles; the limit is {_MOST_INSTANCES}")
    return tuple(result)


def _devices(where: str, raw_devices: object) -> frozenset[int] | None:
    if raw_devices == "all":
        return None
    if not isinstance(raw_devices, list) or not raw_devices or len(raw_devices) > _LAST_INDEX + 1:
        raise FormatError(f"{where} is neither 'all' nor a list of GPU indices")
    for index in raw_devices:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= _LAST_INDEX:
            raise FormatError(f"{where}: {_short(index)} is not a GPU index")
    return frozenset(raw_devices)


def _filters(where: str, filters: object) -> frozenset[int]:
    values = [filters] if isinstance(filters, str) else [] if filters is None else filters
    if not isinstance(values, list) or len(values) > _MOST_FILTERS:
        raise FormatError(f"{where} is neither a PCI id nor a list of PCI ids")
    result = set()
    for value in values:
        try:
            result.add(int(value, 16) if isinstance(value, str) and len(value) <= 10 else -1)
        except ValueError:
            result.add(-1)
        if -1 in result:
            raise FormatError(f"{where}: {_short(value)} is not a PCI id such as 0x233010DE")
    return frozenset(result)


def _mapping(raw_mapping: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(raw_mapping, dict):
        raise FormatError(f"{where} is not a mapping")
    return raw_mapping


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= _LONG_NUMBER:
        # Python refuses to print integers of more than 4,300 digits
        return "a number too long to read"
    return repr(value)[:80] if isinstance(value, str | int | float | None) else "the value"
