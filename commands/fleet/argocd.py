"""Argo CD in the admin cluster: a cluster Secret for each of the others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from commands.fleet.accounts import Account
from commands.fleet.logins import ClusterLogin, secret

# Kubernetes' own: everything inside of namespaces, and nothing that belongs to the whole cluster.
ROLE = "admin"


@dataclass(frozen=True)
class ArgoCd:
    """Argo CD, and what it may do in the clusters."""

    namespace: str
    role: str
    only_in: Sequence[str]
    """The namespaces in which it may; all without any."""

    @property
    def requirements(self) -> Mapping[str, str]:
        """Paths of what the admin cluster must have."""
        namespace = f"/api/v1/namespaces/{self.namespace}"
        return {namespace: f"no namespace {self.namespace}: name Argo CD's with `--namespace`"}

    @property
    def account(self) -> Account:
        """Its account in each cluster."""
        return Account(name="argocd", role=self.role, namespaces=self.only_in)

    @property
    def collections(self) -> Sequence[str]:
        """The path of its Secrets."""
        return [f"/api/v1/namespaces/{self.namespace}/secrets"]

    def check(self, api: httpx.Client) -> None:
        """Accept every cluster: none lacks anything that Argo CD needs."""

    def documents(self, name: str, login: ClusterLogin) -> Sequence[Mapping[str, Any]]:
        """The cluster Secret."""
        config = {
            "bearerToken": login.token.text,
            "tlsClientConfig": {"insecure": False, "caData": login.ca_data},
        }
        data = {"name": login.stack, "server": login.server, "config": json.dumps(config)}
        if self.only_in:
            # It would list everything of the whole cluster, and is not allowed to.
            data |= {"namespaces": ",".join(self.only_in), "clusterResources": "false"}
        return [secret(name, data, {"argocd.argoproj.io/secret-type": "cluster"})]

    def token(self, data: Mapping[str, str]) -> str:
        """The token of a cluster Secret."""
        found: str = json.loads(data["config"])["bearerToken"]
        return found
