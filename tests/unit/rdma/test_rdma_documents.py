"""The reader accepts the manifests of docs/rdma-policies.md."""

from pathlib import Path
from textwrap import dedent

import yaml

from rdma.compiling.compiler import Compiler
from rdma.compiling.pkeys import FIRST, LAST
from rdma.reading import manifests
from rdma.verbs import NAMES

ROOT = Path(__file__).parents[3]


def documented_objects() -> list[dict[str, object]]:
    """Return the objects in indented blocks that begin with apiVersion."""
    text = (ROOT / "docs" / "rdma-policies.md").read_text(encoding="utf-8")
    blocks, block = [], ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("    "):
            block += f"{line}\n"
        else:
            blocks.append(dedent(block))
            block = ""
    return [yaml.safe_load(one) for one in blocks if one.startswith("apiVersion: rdma")]


def test_they_are_read_and_nothing_in_them_is_missing() -> None:
    policy, network = documented_objects()
    compiler = Compiler()
    compiler.upsert_policy(manifests.policy(policy))
    compiler.upsert_network(manifests.network(network))
    assert compiler.problems() == {}
    assert FIRST <= compiler.pkeys["lab", "train"] <= LAST


def test_every_verb_is_named() -> None:
    text = (ROOT / "docs" / "rdma-policies.md").read_text(encoding="utf-8")
    assert all(name in text for name in NAMES)
