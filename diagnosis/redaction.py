"""Removes secrets and the names of other tenants from text before it leaves a cluster.

The documents of a bundle are built from lists of permitted fields, so redaction of text concerns
what is free text: logs, messages of conditions and errors.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

REDACTED: Final = "[redacted]"

_PATTERNS: Final = (
    # a private key, to its end or to the end of the text
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    # a JSON Web Token, such as that of a service account
    re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"),
    # the password in a URL
    re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"),
    # the cookie and the token of the console's URL, and other parameters of that kind
    re.compile(r"(?i)(?<=[?&])(?:token|access_token|sig|signature)=[^\s&#]+"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{6,}"),
    # NAME_TOKEN=value, "password": "value", secret: value
    re.compile(
        r"(?i)[\w.-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential)[\w.-]*"
        r"[\"']?\s*[=:]\s*(?:\"[^\"]*\"|'[^']*'|[^\s,;}\]\"']+)"
    ),
    # long runs of hexadecimal or base64 that are no digest of an image and no UUID
    re.compile(
        r"(?<![\w/+@:.-])(?!sha256:)(?=[\w/+]*\d)(?=[\w/+]*[A-Za-z])[A-Za-z0-9/+]{40,}={0,2}"
    ),
)
_SECRET_KEY: Final = re.compile(r"(?i)password|passwd|secret|token|api[_-]?key|credential")
# Namespaces that every cluster has: their names identify no tenant.
_COMMON: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


def redact(text: str) -> str:
    """Replace what looks like a secret."""
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    return text


@dataclass(slots=True)
class Pseudonyms:
    """Replaces the names of foreign namespaces, and of the objects that are named with them.

    A name gets the same pseudonym in all files of a bundle.
    """

    own: str
    _namespaces: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def add_namespaces(self, names: Iterable[str]) -> None:
        """Add foreign namespaces; common ones and the own one keep their names."""
        for name in names:
            if name and name != self.own and name not in _COMMON:
                self._namespaces.setdefault(name, f"namespace-{len(self._namespaces) + 1}")

    def add_names(self, names: Iterable[str]) -> None:
        """Add names of foreign objects, such as pods."""
        for name in names:
            if name:
                self._names.setdefault(name, f"name-{len(self._names) + 1}")

    def clean(self, text: str) -> str:
        """Return the text without secrets and without foreign names."""
        text = redact(text)
        for name, pseudonym in self._by_length(self._namespaces):
            # NAMESPACE/NAME: the second part is an object of that namespace
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}/[\w.-]+", f"{pseudonym}/{REDACTED}", text)
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", pseudonym, text)
        for name, pseudonym in self._by_length(self._names):
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", pseudonym, text)
        return text

    def clean_document(self, value: Any) -> Any:
        """Return a document whose keys and texts are clean."""
        if isinstance(value, Mapping):
            return {
                self.clean(str(key)): REDACTED
                if isinstance(one, str) and _SECRET_KEY.search(str(key))
                else self.clean_document(one)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.clean_document(one) for one in value]
        return self.clean(value) if isinstance(value, str) else value

    @staticmethod
    def _by_length(names: dict[str, str]) -> list[tuple[str, str]]:
        return sorted(names.items(), key=lambda pair: (-len(pair[0]), pair[0]))
