"""Which requests the console answers: a loopback Host, the cookie of the printed URL, one site."""

import asyncio
import re

import pytest

from benchmarks.console.synthetic import SyntheticCluster
from console import serving
from support.rigs.console_rig import HOST, PORT, TOKEN, Answer, open_console


def fetch(path: str = "/", **request: object) -> Answer:
    async def run() -> Answer:
        async with open_console(SyntheticCluster()) as console:
            return await console.request(path, **request)  # type: ignore[arg-type]

    return asyncio.run(run())


def test_a_request_with_the_cookie_is_answered() -> None:
    assert fetch().status == 200


@pytest.mark.parametrize("path", ["/", "/stream", "/static/console.js", "/layout", "/no-such-page"])
@pytest.mark.parametrize("cookie", [None, "", "wrong", TOKEN + "x", "ü"])
def test_a_request_without_the_cookie_is_refused(path: str, cookie: str | None) -> None:
    answer = fetch(path, cookie=cookie)
    assert answer.status == 401
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        f"evil.example:{PORT}",
        HOST,
        f"{HOST}:{PORT + 1}",
        f"{HOST}.evil.example:{PORT}",
        f"{HOST}:{PORT}@evil.example",
        f"{HOST}.:{PORT}",
        f"x.{HOST}:{PORT}",
        f"[::1]:{PORT}",
        f"127.0.0.1:{PORT}",
        f"localhost:{PORT}",
        f"ü:{PORT}",
    ],
)
def test_a_host_that_is_not_this_console_is_refused_even_with_the_cookie(host: str | None) -> None:
    assert fetch(host=host).status == 421


def test_each_console_has_a_name_of_its_own_so_that_no_other_port_gets_its_cookie() -> None:
    names = {serving.new_host() for _ in range(50)}
    assert len(names) == 50
    for name in names:
        assert re.fullmatch(r"tessera-[0-9a-f]{32}\.localhost", name)


def test_the_name_is_compared_without_regard_to_case() -> None:
    assert fetch(host=f"{HOST.upper()}:{PORT}").status == 200


@pytest.mark.parametrize(
    "other",
    ['prefs={"a":1, "b":2}', "list=[1,2]", "flag", "a/b=1", 'p="x"y', "u=ü", "=x", "a,b=1", "e="],
)
def test_cookies_of_other_programs_on_this_name_do_not_matter(other: str) -> None:
    own = f"tessera-console={TOKEN}"
    for text in (f"{other}; {own}", f"{own}; {other}", f"tessera-console=old; {other};{own}"):
        assert fetch(cookie=None, header_cookie=text).status == 200, text


def test_the_printed_url_sets_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    answer = fetch(query=f"token={TOKEN}", cookie=None)
    assert answer.status == 200
    assert answer.headers["set-cookie"] == (
        f"tessera-console={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    )


@pytest.mark.parametrize("query", ["", "token=", "token=wrong", "token=%ff", "tokens=" + TOKEN])
def test_a_wrong_token_sets_no_cookie(query: str) -> None:
    answer = fetch(query=query, cookie=None)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_a_token_counts_at_the_start_page_only() -> None:
    assert fetch("/events", query=f"token={TOKEN}", cookie=None).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"http://{HOST}:{PORT + 1}"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"},
    ],
)
def test_a_request_that_another_site_makes_is_refused(headers: dict[str, str]) -> None:
    assert fetch(**headers).status == 403


def test_a_link_from_elsewhere_may_lead_here() -> None:
    assert fetch(sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_methods_that_change_something_are_refused(method: str) -> None:
    assert fetch(method=method).status == 405


def test_only_the_layout_diff_accepts_a_form() -> None:
    assert fetch("/", method="POST").status == 405
    assert fetch("/layout", method="POST", body=b"manifest=").status == 422


@pytest.mark.parametrize("path", ["/", "/static/console.css", "/missing"])
def test_every_response_forbids_inline_code_and_other_origins(path: str) -> None:
    answer = fetch(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    refused = fetch(path, cookie=None)
    assert refused.headers["content-security-policy"] == policy
