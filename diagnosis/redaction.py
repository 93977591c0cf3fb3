"""Removes secrets and the names of other tenants from text before it leaves a cluster.

The documents of a bundle are built from lists of permitted fields, so redaction of text concerns
what is free text: logs, messages of conditions and errors. ``secret_formats`` lists what is
recognised by its form alone.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from diagnosis import secret_formats

REDACTED: Final = "[redacted]"

# Each pattern is linear: what can fail is bounded, or is not scanned again from a later start.
_WORDS: Final = (
    r"password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|credential"
)
# A value in quotes, which are escaped in JSON within JSON, to the same quotes or the line's end.
_QUOTED: Final = r"(?P<q>\\{0,8}[\"'])[^\n]*?(?:(?<!\\)(?P=q)|$)"
_PATTERNS: Final = (
    # a private key, to its end or to the end of the text
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        REDACTED,
    ),
    # a header with credentials, to the end of the line or of the quotes
    (
        re.compile(
            r"(?im)(\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\\{0,8}[\"']?\s{0,8}[=:]\s{0,8})"
            rf"(?:{_QUOTED}|[^\n]+)"
        ),
        rf"\1{REDACTED}",
    ),
    # the console's cookie
    (re.compile(r"(\btessera-console[\w-]{0,40}=)[^\s;]+"), rf"\1{REDACTED}"),
    # user and password in a URL
    (
        re.compile(r"(?<=://)(?:[^\s/@:?#\"'<>]{0,128}:[^\s\"'<>]{0,256}|[^\s/@\"'<>]{1,256})@"),
        f"{REDACTED}@",
    ),
    (re.compile(r"(?i)(?<=[?&])([\w-]{0,30}sig(?:nature)?=)[^\s&#]+"), rf"\1{REDACTED}"),
    # the path of a webhook, which is its secret
    (re.compile(secret_formats.WEBHOOK), rf"\1{REDACTED}"),
    (re.compile(secret_formats.ARGUMENTS), rf"\1\2{REDACTED}"),
    (re.compile(secret_formats.UUID), rf"\1{REDACTED}"),
    # "auth" of a registry in Docker's configuration, and "data" of keys in a kubeconfig
    (
        re.compile(
            rf"(?im)(\b(?:auth|identitytoken|client-key-data)\\{{0,8}}[\"']?\s{{0,8}}[=:]\s{{0,8}})"
            rf"(?:{_QUOTED}|[A-Za-z0-9+/=]{{12,}})"
        ),
        rf"\1{REDACTED}",
    ),
    # NAME_TOKEN=value, "password": "value", secret: value
    (
        re.compile(
            rf"(?im)((?:{_WORDS})[\w.-]{{0,40}}\\{{0,8}}[\"']?\s{{0,8}}[=:]\s{{0,8}})"
            rf"(?:{_QUOTED}|\S+)"
        ),
        rf"\1{REDACTED}",
    ),
    # --token value, and "--token", "value"
    (
        re.compile(
            rf"(?im)(?<![\w-])(--?[\w-]{{0,40}}?(?:{_WORDS})[\w-]{{0,40}}"
            rf"\\{{0,8}}[\"']?[,\s]\s{{0,8}})(?:{_QUOTED}|[^\s-]\S*)"
        ),
        rf"\1{REDACTED}",
    ),
    # a JSON Web Token, such as that of a service account
    (re.compile(r"(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"), REDACTED),
    *((re.compile(pattern), REDACTED) for pattern in secret_formats.PATTERNS.values()),
    (re.compile(r"(?i)\b(?:bearer|basic)\s{1,8}[\w.~+/=-]{6,}"), REDACTED),
)
_RUNS: Final = re.compile(secret_formats.RUNS)
_SECRET_KEY: Final = re.compile(rf"(?i){_WORDS}")
# What may be an IPv6 or an IPv4 address; `ipaddress` decides.
_ADDRESS: Final = re.compile(
    r"(?:(?<![\w:.])[\da-fA-F]|:)[\da-fA-F:]{1,44}(?:(?:\.\d{1,3}){3}|(?!\.\d))(?!\w)"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)"
)
# Namespaces that every cluster has: their names identify no tenant. Tenants have pods in this one.
_SHARED: Final = "default"
_COMMON: Final = frozenset({_SHARED, "kube-system", "kube-public", "kube-node-lease"})


def redact(text: str) -> str:
    """Replace what looks like a secret."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _RUNS.sub(lambda match: match[1] or REDACTED, text)


@dataclass(slots=True)
class Pseudonyms:
    """Replaces IP addresses, names of foreign namespaces, and of objects that are named with them.

    Addresses of Tessera's own pods and of nodes are kept. A name or an address gets the same
    pseudonym in all files of a bundle.
    """

    own: str
    _namespaces: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _addresses: dict[str, str] = field(default_factory=dict)
    # the pattern of all names, with the number of names from which it was compiled
    _namespace_cache: tuple[int, re.Pattern[str]] | None = None
    _name_cache: tuple[int, re.Pattern[str]] | None = None

    def __post_init__(self) -> None:
        """Let objects of the shared namespace lose their names, like those of a foreign one."""
        if self.own != _SHARED:
            self._namespaces[_SHARED] = _SHARED

    def add_namespaces(self, names: Iterable[str]) -> None:
        """Add foreign namespaces; common ones and the own one keep their names."""
        for name in names:
            if name and name != self.own and name not in _COMMON:
                number = len(self._namespaces) + (_SHARED not in self._namespaces)
                self._namespaces.setdefault(name, f"namespace-{number}")

    def add_names(self, names: Iterable[str]) -> None:
        """Add names of foreign objects, such as pods."""
        for name in names:
            if name:
                self._names.setdefault(name, f"name-{len(self._names) + 1}")

    def keep_addresses(self, addresses: Iterable[str]) -> None:
        """Add addresses that identify no tenant."""
        for address in addresses:
            self._addresses[_canonical(address) or address] = address

    def clean(self, text: str) -> str:
        """Return the text without secrets, and without foreign names and addresses."""
        text = _ADDRESS.sub(self._replace_address, redact(text))
        if self._namespaces:
            text = self._namespace_pattern().sub(self._replace_namespace, text)
        if self._names:
            text = self._name_pattern().sub(lambda found: self._names[found[0]], text)
        return text

    def clean_document(self, value: Any) -> Any:
        """Return a document whose keys and texts are clean."""
        if isinstance(value, Mapping):
            return {
                self.clean(str(key)): REDACTED
                if isinstance(child, str) and _SECRET_KEY.search(str(key))
                else self.clean_document(child)
                for key, child in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.clean_document(child) for child in value]
        return self.clean(value) if isinstance(value, str) else value

    def _replace_address(self, match: re.Match[str]) -> str:
        text = match[0]
        first, last = text.startswith(":"), text.endswith(":")  # may be the sentence's
        for begin, end in ((0, 0), (0, last), (first, 0), (first, last)):
            if address := _canonical(text[begin : len(text) - end]):
                name = self._addresses.setdefault(address, f"address-{len(self._addresses) + 1}")
                return text[:begin] + name + text[len(text) - end :]
        return text

    def _replace_namespace(self, match: re.Match[str]) -> str:
        pseudonym = self._namespaces[match[1]]
        return f"{pseudonym}/{REDACTED}" if match[2] else pseudonym

    def _namespace_pattern(self) -> re.Pattern[str]:
        """Return the pattern of NAMESPACE, and of NAMESPACE/NAME, which is an object of it."""
        if self._namespace_cache is None or self._namespace_cache[0] != len(self._namespaces):
            pattern = rf"(?<![\w.-])({_alternatives(self._namespaces)})(?:(/[\w.-]+)|(?![\w-]))"
            self._namespace_cache = len(self._namespaces), re.compile(pattern)
        return self._namespace_cache[1]

    def _name_pattern(self) -> re.Pattern[str]:
        if self._name_cache is None or self._name_cache[0] != len(self._names):
            pattern = rf"(?<![\w.-])(?:{_alternatives(self._names)})(?![\w-])"
            self._name_cache = len(self._names), re.compile(pattern)
        return self._name_cache[1]


def _canonical(text: str) -> str:
    """Return an address in one form, an IPv4 address also for its mapped form.

    The result is empty for other texts, and for addresses that every machine has.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return "" if address.is_loopback or address.is_unspecified else str(address)


def _alternatives(names: Iterable[str]) -> str:
    """Return a pattern of the names, the longest first."""
    return "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
