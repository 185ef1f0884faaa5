"""Requests honor the environment's proxies, and trust the CA that they are given."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from addons.http_client import NoAnswerError, request
from tests.unit.http_servers import Silent, certificate, served


class Proxy(Silent):
    """A proxy that notes what it is asked for and refuses to open tunnels."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:  # noqa: N802
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()

    def do_CONNECT(self) -> None:  # noqa: N802
        self.asked.append(self.path)
        self.send_error(502, "No Tunnel")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Proxy, "asked", [])
    with served(Proxy) as url:
        yield url


def test_a_proxy_of_the_environment_is_used(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some environments leave the scheme out.
    monkeypatch.setenv("http_proxy", proxy.removeprefix("http://"))
    monkeypatch.setenv("https_proxy", proxy)
    assert request("GET", "http://charts.example.org/index.yaml", timeout=5).status_code == 200
    with pytest.raises(NoAnswerError, match="502 No Tunnel"):
        request("GET", "https://10.8.0.10:6443/readyz", timeout=5)
    assert Proxy.asked == ["http://charts.example.org/index.yaml", "10.8.0.10:6443"]


@pytest.mark.parametrize("exceptions", ["localhost,127.0.0.1", "[::1],fd00::/8,127.0.0.1", "*"])
def test_no_proxy_names_hosts_that_are_asked_directly(
    proxy: str, monkeypatch: pytest.MonkeyPatch, exceptions: str
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", exceptions)
    assert request("GET", f"{proxy}/here", timeout=5).status_code == 200
    assert Proxy.asked == ["/here"]


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "gopher://proxy.example.org")
    with pytest.raises(NoAnswerError, match=r"gopher://proxy\.example\.org"):
        request("GET", "https://charts.example.org", timeout=5)


class TestAuthority:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[Path, Path]:
        return certificate(tmp_path), certificate(tmp_path)

    def test_only_the_given_ca_is_trusted(self, files: tuple[Path, Path], proxy: str) -> None:
        right, wrong = files
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(right)
        with served(Proxy, tls) as url:
            assert request("GET", url, timeout=5, authority=right.read_text()).status_code == 200
            for other in (wrong.read_text(), None):
                with pytest.raises(NoAnswerError, match="certificate verify failed"):
                    request("GET", url, timeout=5, authority=other)
