"""ASCII forms of host names, identities of URLs, and public addresses."""

from __future__ import annotations

import re
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.urls import (
    ParsedUrl,
    ascii_host,
    count_filled,
    is_public,
    is_url,
    parse_url,
)
from tests.support.running import examples

HOSTS = {
    "Example.COM": "example.com",
    "faß.example": "xn--fa-hia.example",
    "Bücher.Example:8443": "xn--bcher-kva.example:8443",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "日本。example": "xn--wgv71a.example",
    "ｗｗｗ.example": "www.example",
    "some_host.example": "some_host.example",
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_name_is_mapped_by_uts_46_and_encoded_by_idna_2008(name: str) -> None:
    assert ascii_host(name) == HOSTS[name]


@pytest.mark.parametrize("name", ["\u2024.example", "é\ud800.example", "é" * 64 + ".example"])
def test_a_name_without_an_ascii_form_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ascii_host(name)


def test_hosts_with_sharp_s_and_double_s_are_different() -> None:
    sharp, double = parse_url("https://faß.example/"), parse_url("https://fass.example/")
    assert sharp.identity == "https://xn--fa-hia.example/"
    assert double.identity == "https://fass.example/"


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(ip_address(address))


NOT_PUBLIC = """
    0.0.0.0 10.1.1.1 100.64.0.1 127.0.0.1 169.254.1.1 172.16.0.1 192.168.1.1 224.0.1.1 240.0.0.1
    255.255.255.255 :: ::1 fc00::1 fe80::1 fec0::1 ff0e::1 ::ffff:10.0.0.1 ::127.0.0.1
    64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: 2002:808:808:: 2001:db8::1
"""


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_a_private_reserved_or_relayed_address_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


def parse_or_explain(url: str) -> ParsedUrl | str:
    try:
        return parse_url(url)
    except ValueError as error:
        return str(error)


labels = st.sampled_from(["a", "api", "example", "local", "0x7f", "127", "1", "_x", "-", "x" * 63])
rests = st.text("/?#%.:@[]{}\\;=&a0~'\" é", max_size=8)


SPELLINGS = {
    "https://a.example/A": "https://a.example/%41 HTTPS://A.EXAMPLE:443/b/../A https://a.example/./A",
    "https://a.example/": "https://a.example https://a.example/.. https://a.example/b/.. "
    "https://a.example/%2E%2e https://a.example/?",
    "https://a.example/b/": "https://a.example/b/. https://a.example/b/c/..",
    "https://a.example/%2F~?q=%C3%A9": "https://a.example/%2f%7e?%71=%c3%a9 "
    "https://a.example/%2f~?q=é",
    "https://a.example/b?c=/../d": "https://a.example/b?c=/%2e./%64 https://a.example/b?c=/../d#e",
    "https://a.example//b": "https://a.example//c/../b",
}


@pytest.mark.parametrize("identity", SPELLINGS)
def test_all_spellings_of_a_url_have_one_identity(identity: str) -> None:
    spellings = [identity, *SPELLINGS[identity].split()]
    assert {parse_url(spelling).identity for spelling in spellings} == {identity}


@pytest.mark.parametrize(
    "name", ["db.service.consul", "api.ns.svc", "api.ns.svc.cluster.local", "a.test", "b.onion"]
)
def test_names_outside_the_public_dns_are_private(name: str) -> None:
    assert parse_url(f"https://{name}/").is_private


@pytest.mark.parametrize(
    "name", ["https://a.example/x.json", "HTTPS://a.example", "ftp://a.example"]
)
def test_a_name_with_a_scheme_is_a_url(name: str) -> None:
    assert is_url(name)


@pytest.mark.parametrize("name", ["a.json", "-", "https:", "./https://a", "C:\\a.json", "é://a"])
def test_a_name_without_a_scheme_is_a_path(name: str) -> None:
    assert not is_url(name)


@settings(max_examples=examples(500), deadline=None)
@given(rests | st.text("/.%2eE41~?é", max_size=12))
def test_an_identity_is_its_own_identity(rest: str) -> None:
    parsed = parse_or_explain(f"https://a.example/{rest}")
    if isinstance(parsed, ParsedUrl):
        assert parse_url(parsed.identity).identity == parsed.identity


@settings(max_examples=examples(500), deadline=None)
@given(
    st.sampled_from(["http", "https"]),
    st.lists(labels | st.text(".-:@[]%0aé", max_size=3), max_size=4).map(".".join),
    rests | st.text(max_size=4) | rests.map("/".__add__),
)
def test_a_url_in_normal_form_is_parsed_as_in_any_other(scheme: str, host: str, rest: str) -> None:
    normal = parse_or_explain(f"{scheme}://{host}{rest}")
    assert normal == parse_or_explain(f"{scheme.upper()}://{host}{rest}")


def test_a_long_host_of_short_labels_is_not_valid() -> None:
    assert parse_url(f"https://{'a.' * 126}b/").domain == "a." * 126 + "b"
    with pytest.raises(ValueError, match="host"):
        parse_url(f"https://{'a.' * 127}b/")


@settings(max_examples=examples(2000), deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "/", "{x}"]), max_size=9), max_size=3),
    st.text("ab/", max_size=9),
)
def test_a_url_fills_in_templates_as_a_regular_expression_would_have_it(
    templates: list[list[str]], rest: str
) -> None:
    expected = []
    for parts in templates:
        pattern = "".join("[^/]+" if part == "{x}" else part for part in parts)
        fits = re.fullmatch(f"https://a.example/{pattern}", f"https://a.example/{rest}")
        expected.append(parts.count("{x}") if fits else 0)
    written = [f"https://a.example/{''.join(parts)}" for parts in templates]
    assert [*count_filled(f"https://a.example/{rest}", written)] == expected


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("/v1/{id}", 1),
        ("/v1/{id}?unit=C", 1),
        ("/v1/{id}?unit={unit}", 2),
        ("/v1/{id}?{query}", 2),
        ("/v1/{id}?:query", 2),
        ("/{version}/7?unit={a}C", 0),
        ("/v1/[id]", 1),
        ("/%7Bversion%7D/:id", 2),
        ("/v{version}/7", 1),
        ("/v1/:id.json", 0),
        ("/v1/7", 0),
        ("/v1:id/7", 0),
        ("/v1/{id}/{more}", 0),
        ("/v1/{id}?unit=F", 0),
    ],
)
def test_placeholders_of_any_spelling_may_be_in_path_and_query(template: str, filled: int) -> None:
    url = "https://a.example/v1/7?unit=C"
    assert [*count_filled(url, [f"https://a.example{template}"])] == [filled]
