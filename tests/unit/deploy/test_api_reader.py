"""The end-to-end tests' reader supports the same arguments as ``kubectl get``, or runs kubectl."""

import pytest

from support.cluster.api_reader import Query, parse


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ("pods", Query("pods", "", "mine")),
        ("pod one", Query("pod", "one", "mine")),
        ("miglayout/seven", Query("miglayout", "seven", "mine")),
        ("pods -A", Query("pods", "", "")),
        ("lease one -n other", Query("lease", "one", "other")),
        ("pods -l a=b", Query("pods", "", "mine", (("label_selector", "a=b"),))),
        (
            "pods --field-selector=spec.nodeName=n -l a=b",
            Query(
                "pods",
                "",
                "mine",
                (("field_selector", "spec.nodeName=n"), ("label_selector", "a=b")),
            ),
        ),
        (
            "events --field-selector involvedObject.name=n",
            Query("events", "", "mine", (("field_selector", "involvedObject.name=n"),)),
        ),
    ],
)
def test_arguments_of_kubectl_get_are_one_query(arguments: str, query: Query) -> None:
    assert parse("mine", tuple(arguments.split())) == query


@pytest.mark.parametrize(
    "arguments",
    [
        "pods --ignore-not-found",
        "pod one two",
        "pods,nodes",
        "pod one -l a=b",
        "pods --raw=/x",
        "-A",
        "",
    ],
)
def test_unsupported_arguments_are_passed_to_kubectl(arguments: str) -> None:
    assert parse("mine", tuple(arguments.split())) is None
