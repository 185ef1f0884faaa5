"""The wait for the API before the first object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
from pulumi.output import Unknown

from addons import api, chart
from tests.unit.addons.install import install
from tests.unit.http_servers import Silent, served


class Api(Silent):
    """An API that is not ready when first asked."""

    statuses: ClassVar[list[int]] = []

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(self.statuses.pop(0) if self.path == "/readyz" else 404)
        self.end_headers()


@pytest.fixture
def api_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(api, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(api, "_PREVIEW_SECONDS", 0.0)
    monkeypatch.setattr(api, "_UPDATE_SECONDS", 5.0)
    monkeypatch.setattr(chart, "check", lambda *_, online: None)
    with served(Api) as url:
        yield url


class TestApi:
    @staticmethod
    def kubeconfig(server: str) -> str:
        return json.dumps({"clusters": [{"cluster": {"server": server}}]})

    def install(self, server: str, *, preview: bool) -> Mapping[str, Any]:
        run = install(preview=preview, checks=True, kubeconfig=self.kubeconfig(server))
        [provider] = run.all("pulumi:providers:kubernetes").values()
        return provider.inputs

    @pytest.mark.parametrize("preview", [True, False])
    @pytest.mark.parametrize("status", [200, 401, 403])
    def test_an_api_that_answers_is_asked_once(
        self, api_address: str, monkeypatch: pytest.MonkeyPatch, preview: bool, status: int
    ) -> None:
        monkeypatch.setattr(Api, "statuses", [status])
        inputs = self.install(api_address, preview=preview)
        assert inputs["kubeconfig"] == self.kubeconfig(api_address)
        assert not Api.statuses

    def test_an_update_waits_for_the_api(
        self, api_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Api, "statuses", [500, 503, 200])
        inputs = self.install(api_address, preview=False)
        assert inputs["kubeconfig"] == self.kubeconfig(api_address)
        assert not Api.statuses

    def test_an_update_fails_if_the_api_never_answers(
        self, api_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api, "_UPDATE_SECONDS", 0.0)
        monkeypatch.setattr(Api, "statuses", [500])
        with pytest.raises(Exception, match=r"does not answer \(HTTP status 500\)"):
            self.install(api_address, preview=False)

    def test_a_preview_continues_without_the_api(self, api_address: str) -> None:
        inputs = self.install("http://127.0.0.1:1", preview=True)
        assert isinstance(inputs["kubeconfig"], Unknown)
        assert inputs["clusterIdentifier"] == "demo"
