"""ServiceAccounts in a cluster for programs outside of it: their rights and their tokens."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from commands.fleet.objects import apply, delete, exists, labelled

# No pod runs there: whoever makes pods in a namespace has the rights of its ServiceAccounts.
NAMESPACE = "openstack-kubernetes-fleet"
LABEL = "openstack-kubernetes-fleet"

_NAMESPACES = "/api/v1/namespaces"
_ACCOUNTS = f"{_NAMESPACES}/{NAMESPACE}/serviceaccounts"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class AccountError(Exception):
    """The cluster lacks what the rights refer to."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A ServiceAccount with the rights of one ClusterRole."""

    name: str
    role: str
    namespaces: Sequence[str] = ()
    """The namespaces in which it has these rights; all without any."""
    rules: Sequence[Mapping[str, Any]] = ()
    """Those of the ClusterRole; without any, the role must exist."""

    @property
    def user(self) -> str:
        """Its name for the API server."""
        return f"system:serviceaccount:{NAMESPACE}:{self.name}"


@dataclass(frozen=True)
class Token:
    """A token of a ServiceAccount."""

    text: str = field(repr=False)
    issued: datetime
    ends: datetime

    @staticmethod
    def of(text: str) -> Token:
        """Read when it ends.

        Raises:
            ValueError: if it is no token.
        """
        _, payload, _ = text.split(".")
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        issued, ends = (datetime.fromtimestamp(claims[key], UTC) for key in ("iat", "exp"))
        return Token(text, issued, ends)

    @property
    def fresh(self) -> bool:
        """True until half of its life is over."""
        return datetime.now(UTC) < self.issued + (self.ends - self.issued) / 2


def keep(api: httpx.Client, account: Account) -> None:
    """Give the account its rights, and take all others that it got here before.

    Raises:
        AccountError: if the role or a namespace does not exist.
        httpx.HTTPError: if the API does not answer, or refuses.
    """
    roles = f"{_RBAC}/clusterroles"
    if not account.rules and not exists(api, f"{roles}/{account.role}"):
        raise AccountError(f"it has no ClusterRole {account.role}")
    for namespace in account.namespaces:
        if not exists(api, f"{_NAMESPACES}/{namespace}"):
            raise AccountError(f"it has no namespace {namespace}")
    apply(api, _NAMESPACES, _document("v1", "Namespace", NAMESPACE))
    apply(api, _ACCOUNTS, _document("v1", "ServiceAccount", account.name))
    if account.rules:
        apply(api, roles, _rbac("ClusterRole", account.role) | {"rules": account.rules})
    _bind(api, account)


def token(api: httpx.Client, account: Account, hours: int) -> Token:
    """A new token of the account; the API server may give it a shorter life."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": hours * 3600},
    }
    answer = api.post(f"{_ACCOUNTS}/{account.name}/token", json=request).raise_for_status()
    return Token.of(answer.json()["status"]["token"])


def accepts(api: httpx.Client, account: Account, token: Token) -> bool:
    """True if the cluster takes the token for this very account: it may have been made again."""
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token.text},
    }
    answer = api.post("/apis/authentication.k8s.io/v1/tokenreviews", json=review)
    status = answer.raise_for_status().json()["status"]
    return bool(status.get("authenticated")) and status["user"]["username"] == account.user


def _bind(api: httpx.Client, account: Account) -> None:
    kind = "RoleBinding" if account.namespaces else "ClusterRoleBinding"
    # No namespace is everywhere.
    places: set[str | None] = set(account.namespaces) or {None}
    name, label = f"{LABEL}:{account.name}", f"{LABEL}={account.name}"
    for collection in ("clusterrolebindings", "rolebindings"):
        for each in labelled(api, f"{_RBAC}/{collection}", label):
            metadata = each["metadata"]
            place = metadata.get("namespace")
            # The role of a binding cannot be changed.
            if place not in places or each["roleRef"]["name"] != account.role:
                delete(api, _bindings(place), metadata["name"])
    for place in places:
        binding = _rbac(kind, name)
        binding["metadata"]["labels"] = {LABEL: account.name}
        group = "rbac.authorization.k8s.io"
        binding["roleRef"] = {"apiGroup": group, "kind": "ClusterRole", "name": account.role}
        binding["subjects"] = [
            {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": account.name}
        ]
        apply(api, _bindings(place), binding)


def _bindings(namespace: str | None) -> str:
    if namespace is None:
        return f"{_RBAC}/clusterrolebindings"
    return f"{_RBAC}/namespaces/{namespace}/rolebindings"


def _rbac(kind: str, name: str) -> dict[str, Any]:
    return _document("rbac.authorization.k8s.io/v1", kind, name)


def _document(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
