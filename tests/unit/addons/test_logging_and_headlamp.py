"""Logging and the dashboard, with and without what they work with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from addons import headlamp
from tests.unit.addons.install import SECRET, AddonsRun, install

CONFIG_MAP = "core/v1:ConfigMap"
CA_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"


class TestLogging:
    def test_pods_and_journals_of_every_node_are_collected(self, everything: AddonsRun) -> None:
        values = everything.chart_values("fluent-bit")
        assert values["tolerations"] == [{"operator": "Exists"}]
        assert "/var/log/containers/" in values["config"]["inputs"]
        assert "systemd" in values["config"]["inputs"]
        # Both outputs lead to the Service that the chart creates.
        assert values["config"]["outputs"].count("Host victoria-logs-single-server.logging") == 2

    def test_the_collector_can_only_write_its_state(self, everything: AddonsRun) -> None:
        mounts = everything.chart_values("fluent-bit")["daemonSetVolumeMounts"]
        writable = [each["mountPath"] for each in mounts if not each.get("readOnly")]
        assert writable == ["/var/lib/fluent-bit"]

    def test_logging_is_monitored_only_with_monitoring(self, everything: AddonsRun) -> None:
        alone = install({"logging": {"enabled": True}})
        for run, monitored in ((everything, True), (alone, False)):
            collector, server = (
                run.chart_values(name) for name in ("fluent-bit", "victoria-logs-single")
            )
            assert collector["serviceMonitor"] == {"enabled": monitored}
            assert server["server"]["serviceMonitor"] == {"enabled": monitored}


class TestHeadlamp:
    RAW: ClassVar[Mapping[str, Any]] = {"headlamp": {"enabled": True, "host": "k.example.org"}}
    OIDC: ClassVar[Mapping[str, str]] = {
        "issuerUrl": "https://login.example.org",
        "clientId": "kubernetes",
    }

    def test_the_client_secret_is_in_a_secret_and_nowhere_else(self) -> None:
        run = install(self.RAW, oidc=self.OIDC, oidc_client_secret="s3cret-of-the-client")
        name = f"demo-addons-{headlamp.OIDC_SECRET}"
        assert run.file(name, "OIDC_CLIENT_SECRET") == "s3cret-of-the-client"
        assert run.file(name, "OIDC_SCOPES") == "openid,profile,email"
        assert (name, "data") in run.secret_inputs
        oidc = run.chart_values("headlamp")["config"]["oidc"]
        assert oidc["externalSecret"]["name"] == headlamp.OIDC_SECRET
        assert "s3cret-of-the-client" not in str(run.chart_values("headlamp"))

    def test_a_public_client_uses_pkce(self) -> None:
        run = install(self.RAW, oidc=self.OIDC)
        oidc = run.chart_values("headlamp")["config"]["oidc"]
        assert (oidc["clientID"], oidc["usePKCE"]) == ("kubernetes", True)
        assert f"demo-addons-{headlamp.OIDC_SECRET}" not in run.all(SECRET)

    @pytest.mark.parametrize("client_secret", ["s3cret-of-the-client", None])
    def test_it_trusts_the_issuers_ca(self, client_secret: str | None) -> None:
        oidc = {**self.OIDC, "caCertificate": CA_CERTIFICATE}
        run = install(self.RAW, oidc=oidc, oidc_client_secret=client_secret)
        assert run.one(CONFIG_MAP, f"demo-addons-{headlamp.OIDC_CA}").inputs["data"] == {
            "ca.crt": CA_CERTIFICATE
        }
        values = run.chart_values("headlamp")
        [mount], [volume] = values["volumeMounts"], values["volumes"]
        assert (mount["name"], volume["configMap"]) == (
            volume["name"],
            {"name": "headlamp-oidc-ca"},
        )
        assert values["config"]["extraArgs"] == [f"-oidc-ca-file={mount['mountPath']}/ca.crt"]
        assert "checksum/oidc-ca" in values["podAnnotations"]
        assert ("checksum/oidc" in values["podAnnotations"]) == (client_secret is not None)

    def test_without_oidc_users_log_in_with_a_token(self) -> None:
        oidc = install(self.RAW).chart_values("headlamp")["config"]["oidc"]
        assert oidc == {"secret": {"create": False}}

    def test_it_has_an_ingress_only_with_a_host(self, everything: AddonsRun) -> None:
        assert "ingress" not in everything.chart_values("headlamp")
        ingress = install(self.RAW).chart_values("headlamp")["ingress"]
        assert ingress["hosts"][0]["host"] == "k.example.org"
        assert "ingressClassName" not in ingress
        # An Ingress of the other controller must move to this one.
        both = install({**self.RAW, "ingress": {"enabled": True, "controller": "nginx"}})
        assert both.chart_values("headlamp")["ingress"]["ingressClassName"] == "nginx"
