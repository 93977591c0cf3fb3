"""Which links get and lose the classifier, and which drops are counted; ``nft`` is a fake."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer import links
from device_plugin.second_layer.links import Links
from rdma.second_layer import JOINED, TABLE, Interface, Present, removal


class Kernel:
    """The links with a classifier, and the number of packets that each queue has dropped."""

    def __init__(self, *standing: int) -> None:
        self.standing = set(standing)
        self.drops: dict[int, int] = {}
        self.made: list[int] = []

    def attach_classifier(self, link: int) -> None:
        """Attach the classifier to a link."""
        self.made.append(link)
        self.standing.add(link)

    def detach_classifier(self, link: int) -> None:
        """Detach the classifier from a link."""
        self.standing.remove(link)

    def classified_links(self) -> frozenset[int]:
        """Return the links with a classifier."""
        return frozenset(self.standing)

    def classifier_drops(self) -> dict[int, int]:
        """Return the dropped packets by link."""
        return self.drops


class Tool:
    """A fake ``nft`` that records its input and prints counters."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.counters: Any = {"nftables": []}
        program = folder / "nft"
        program.write_text(
            '#!/bin/sh\ncd "${0%/*}"\n'
            'case "$1" in\n-f) cat >loaded; cat says >&2; read status <status; exit $status;;\n'
            "*) cat counters;;\nesac\n"
        )
        program.chmod(0o755)
        self.refuse("")

    def refuse(self, says: str, status: int | None = None) -> None:
        """Make ``nft`` print this text and exit with ``status``, by default 1 after a text."""
        (self._folder / "says").write_text(says)
        (self._folder / "status").write_text(f"{bool(says) if status is None else status:d}\n")

    def list_counters(self, document: object) -> None:
        """Set the counters that ``nft`` prints."""
        (self._folder / "counters").write_text(
            document if isinstance(document, str) else json.dumps(document)
        )

    @property
    def loaded(self) -> str:
        """Return the last input of ``nft``."""
        return (self._folder / "loaded").read_text()


def counter(name: str, packets: int, table: str = TABLE) -> dict[str, Any]:
    return {"counter": {"name": name, "packets": packets, "bytes": 9, "table": table}}


Make = Callable[[Kernel], Links]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool(tmp_path)
    made.list_counters({"nftables": []})
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(links, "ruleset", lambda tables, listed, **_: f"rules of {len(listed)}\n")
    return made


def interfaces(*indexes: int) -> list[Interface]:
    return [Interface(f"v{one}", (), None, 4096, one) for one in indexes]


def make(kernel: Kernel) -> Links:
    unused: Any = kernel
    return Links(unused)


TABLES: Any = None


def test_each_link_has_a_classifier_once_and_others_lose_it(tool: Tool) -> None:
    kernel = Kernel(9)
    its = make(kernel)
    its.apply(TABLES, interfaces(3, 1))
    assert (kernel.made, kernel.standing, tool.loaded) == ([1, 3], {1, 3}, "rules of 2\n")
    its.apply(TABLES, interfaces(3, 4))
    assert (kernel.made, kernel.standing) == ([1, 3, 4], {3, 4})
    its.apply(TABLES, interfaces(3, 1))
    assert (kernel.made, kernel.standing) == ([1, 3, 4, 1], {1, 3})
    its.remove()
    assert (kernel.standing, tool.loaded) == (set(), removal())
    its.apply(TABLES, interfaces(3))
    assert kernel.made == [1, 3, 4, 1, 3]  # it was removed, so it is attached again


def test_rules_that_are_refused_take_no_classifier_away(tool: Tool) -> None:
    """A link gets its classifier before its rules, and loses it only after them."""
    kernel = Kernel()
    its = make(kernel)
    its.apply(TABLES, interfaces(1, 2))
    tool.refuse("syntax error\nmore of it\n")
    with pytest.raises(SecondLayerError, match=r"nft -f -: syntax error$"):
        its.apply(TABLES, interfaces(2, 3))
    assert kernel.standing == {1, 2, 3}
    tool.refuse("a warning\n", 0)
    its.apply(TABLES, interfaces(2, 3))
    assert kernel.standing == {2, 3}
    tool.refuse("", 7)
    with pytest.raises(SecondLayerError, match="nft -f -: exit status 7"):
        its.remove()
    assert kernel.standing == {2, 3}


def test_a_counter_of_both_tables_has_the_sum(tool: Tool) -> None:
    its = make(Kernel())
    tool.list_counters({"nftables": [counter("spoofed", 4), counter("spoofed", 3)]})
    assert its.counts() == {"spoofed": 7}


def test_drops_are_those_of_our_counters_and_classified_links(tool: Tool) -> None:
    kernel = Kernel()
    its = make(kernel)
    assert its.drops() == {JOINED: 0}
    its.apply(TABLES, interfaces(1, 2, 3))
    kernel.drops = {1: 5, 3: 7, 8: 100}  # link 8 has another program's queue; link 2 has none
    tool.list_counters(
        {"nftables": [{"metainfo": {}}, counter("a", 4), counter("b", 6, "another")]}
    )
    assert its.drops() == {
        "a": 4,
        f"link_1_from_{JOINED}": 5,
        f"link_3_from_{JOINED}": 7,
        JOINED: 12,
    }


def test_rules_are_written_for_what_is_loaded(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """``nft`` is a fake that prints the same for each list."""
    seen: list[object] = []

    def write(*_: object, present: object, **__: object) -> str:
        seen.append(present)
        return ""

    monkeypatch.setattr(links, "ruleset", write)
    its = make(Kernel())
    table = {"table": {"family": "netdev", "name": TABLE}}
    another = {"table": {"family": "inet", "name": "another"}}
    objects = [{"chain": {"name": "c"}}, {"set": {"name": "s"}}, counter("n", 4)]
    for listed in ([another], [another, table, *objects]):
        tool.list_counters({"nftables": [{"metainfo": {}}, *listed]})
        its.apply(TABLES, interfaces(1))
    present = Present(*map(frozenset, (("c",), ("s",), ("n",))))
    assert seen == [{}, {"netdev": present}]
    for wrong in ("list tables", [table, {"chain": {}}]):
        tool.list_counters(wrong if isinstance(wrong, str) else {"nftables": wrong})
        with pytest.raises(SecondLayerError, match="nft list table"):
            its.apply(TABLES, interfaces(1))


@pytest.mark.parametrize("answer", ["", "[]", "{}", '{"nftables": [{"counter": {}}]}'])
def test_counters_that_cannot_be_read_are_an_error(tool: Tool, answer: str) -> None:
    its = make(Kernel())
    tool.list_counters(answer)
    with pytest.raises(SecondLayerError, match="list counters"):
        its.counts()


def test_an_image_without_the_tool_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SecondLayerError, match="nft is missing"):
        make(Kernel())
