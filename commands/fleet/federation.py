"""Prometheus in the admin cluster: what it takes from the Prometheus of each cluster, and how."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from commands.fleet.accounts import Account
from commands.fleet.logins import ClusterLogin, NotNeededError, secret
from commands.fleet.objects import exists
from config import federation

_NAMESPACE = f"/api/v1/namespaces/{federation.NAMESPACE}"
_SERVICE = f"{federation.SERVICE}:{federation.PORT}"
_PATH = f"{_NAMESPACE}/services/{_SERVICE}/proxy/federate"
_VERSION = "monitoring.coreos.com/v1alpha1"


class Federation:
    """The Prometheus of the admin cluster, and what it may read in the clusters."""

    @property
    def requirements(self) -> Mapping[str, str]:
        """Paths of what the admin cluster must have."""
        missing = "no fleet dashboard: set `addons.monitoring.fleet` there and run `pulumi up`"
        return {f"{_NAMESPACE}/configmaps/{federation.DASHBOARD}": missing}

    @property
    def account(self) -> Account:
        """Its account in each cluster, for one Service and nothing else."""
        rule = {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": [_SERVICE],
            "verbs": ["get"],
        }
        return Account(
            name="monitoring",
            role="openstack-kubernetes-fleet:monitoring",
            namespaces=[federation.NAMESPACE],
            rules=[rule],
        )

    @property
    def collections(self) -> Sequence[str]:
        """The paths of its Secrets and ScrapeConfigs."""
        configs = f"/apis/{_VERSION}/namespaces/{federation.NAMESPACE}/scrapeconfigs"
        return [f"{_NAMESPACE}/secrets", configs]

    def check(self, api: httpx.Client) -> None:
        """Raise NotNeededError if the cluster has no Prometheus."""
        if not exists(api, f"{_NAMESPACE}/services/{federation.SERVICE}"):
            raise NotNeededError("it has no `addons.monitoring`")

    def documents(self, name: str, login: ClusterLogin) -> Sequence[Mapping[str, Any]]:
        """The Secret with the login, and the ScrapeConfig that refers to it."""
        data = {"token": login.token.text, "ca.crt": b64decode(login.ca_data).decode()}
        cluster = {"targetLabel": "cluster", "replacement": login.stack}
        renamed = {
            "sourceLabels": ["__name__"],
            "targetLabel": "__name__",
            "replacement": f"{federation.PREFIX}$1",
        }
        spec = {
            "jobName": federation.JOB,
            "staticConfigs": [
                {"targets": [urlsplit(login.server).netloc], "labels": {"cluster": login.stack}}
            ],
            "scheme": "HTTPS",
            "metricsPath": _PATH,
            "params": {"match[]": list(federation.SELECTORS)},
            "scrapeInterval": "1m",
            "scrapeTimeout": "30s",
            # Each metric has its own node and job; its cluster is what we call it.
            "honorLabels": True,
            "metricRelabelings": [renamed, cluster],
            "authorization": {"type": "Bearer", "credentials": {"name": name, "key": "token"}},
            "tlsConfig": {"ca": {"secret": {"name": name, "key": "ca.crt"}}},
        }
        config = {
            "apiVersion": _VERSION,
            "kind": "ScrapeConfig",
            "metadata": {"name": name},
            "spec": spec,
        }
        return [secret(name, data, {}), config]

    def token(self, data: Mapping[str, str]) -> str:
        """The token of a Secret."""
        return data["token"]
