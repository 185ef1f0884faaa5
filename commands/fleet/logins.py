"""Logins of a program in the admin cluster at the other clusters, in Secrets that it reads."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx

from commands.errors import CommandError
from commands.fleet import accounts, objects
from commands.fleet.accounts import Account, AccountError, Token
from commands.fleet.clusters import trouble
from commands.fleet.stacks import StackError, administrator
from commands.fleet.threads import AT_A_TIME, threads
from commands.kubernetes_api import KubeconfigError
from commands.pulumi_cli import PulumiError

# Annotations of the Secrets.
STACK = "openstack-kubernetes-stack"
ORIGIN = "openstack-kubernetes-origin"
HOURS = "openstack-kubernetes-token-hours"

# The API of the admin cluster for its own pods, which do not go through the gateways.
OWN_SERVER = "https://kubernetes.default.svc"


class LoginError(CommandError):
    """The admin cluster cannot keep any login."""


class NotNeededError(Exception):
    """The program has no use for this cluster; the text says why."""


@dataclass(frozen=True, kw_only=True)
class ClusterLogin:
    """The API of a cluster, and a token for it."""

    stack: str
    server: str
    ca_data: str
    """The cluster's CA, as a kubeconfig has it."""
    token: Token


class Program(Protocol):
    """A program in the admin cluster."""

    @property
    def requirements(self) -> Mapping[str, str]:
        """Paths of what the admin cluster must have, each with what is said without it."""

    @property
    def account(self) -> Account:
        """Its account in each cluster."""

    @property
    def collections(self) -> Sequence[str]:
        """The API's paths of all that it has for each cluster; Secrets come first."""

    def check(self, api: httpx.Client) -> None:
        """Raise NotNeededError if it has no use for this cluster."""

    def documents(self, name: str, login: ClusterLogin) -> Sequence[Mapping[str, Any]]:
        """Its objects of this name for a cluster, one for each collection."""

    def token(self, data: Mapping[str, str]) -> str:
        """The token in the data of a Secret, or a LookupError or ValueError."""


@dataclass(frozen=True)
class Line:
    """A line about a cluster."""

    text: str
    failed: bool = False


class Logins:
    """The logins of one program."""

    def __init__(
        self, program: Program, admin: str, origin: str, hours: int, kubeconfig: Path | None
    ) -> None:
        """Read the present ones.

        Args:
            program: whose logins.
            admin: the stack of the admin cluster.
            origin: where the stacks are, for people; those of another one are left alone.
            hours: the life of a token.
            kubeconfig: a kubeconfig of the admin cluster; without it, that of its stack.

        Raises:
            LoginError: if the admin cluster does not answer, or lacks what the program needs.
            OSError, PulumiError, StackError, KubeconfigError: if nothing tells a way into it.
        """
        self._program = program
        self._hours = hours
        self._origin = origin
        self._admin_name = admin
        self._administrator = administrator(admin, kubeconfig)
        self._admin = self._administrator.client()
        label = f"{accounts.LABEL}={program.account.name}"
        with self._asking_admin():
            for path, missing in program.requirements.items():
                if not objects.exists(self._admin, path):
                    raise LoginError(f"{admin} has {missing}")
            found = objects.labelled(self._admin, program.collections[0], label)
        annotated = ((each["metadata"].get("annotations", {}), each) for each in found)
        self._secrets: dict[str, dict[str, Any]] = {}
        self._others: dict[str, str] = {}
        for marks, each in annotated:
            stack, place = marks.get(STACK), marks.get(ORIGIN, origin)
            # The state of the admin cluster may be in another backend than that of the others.
            if stack is not None and place != origin and stack != admin:
                self._others[stack] = place
            elif stack is not None:
                self._secrets[stack] = each

    @property
    def stacks(self) -> Sequence[str]:
        """The stacks whose clusters have a login."""
        return sorted(self._secrets)

    def keep(self, stack: str, *, remove_gone: bool, needed: bool) -> Line:
        """Make or renew the login at a cluster; tell or remove that of one that is gone.

        That is a failure where the login is `needed`.
        """
        try:
            return Line(f"{stack}: {self._kept(stack)}")
        except (NotNeededError, StackError) as error:
            return self.gone(stack, str(error), remove=remove_gone, failed=needed)
        except httpx.HTTPError as error:
            return Line(f"{stack}: {trouble(error)}", failed=True)
        except (AccountError, KubeconfigError, LoginError, PulumiError) as error:
            return Line(f"{stack}: {' '.join(str(error).split())}", failed=True)

    def gone(self, stack: str, why: str, *, remove: bool, failed: bool = False) -> Line:
        """Tell of a cluster that needs no login, and remove it if that is wanted."""
        if stack not in self._secrets:
            return Line(f"{stack}: left out: {why}", failed)
        name = self._secrets[stack]["metadata"]["name"]
        if not remove:
            return Line(f"{stack}: {why}; `--remove-gone` removes the Secret {name}", failed)
        try:
            with self._asking_admin():
                # The Secret last: it is what another run would look for.
                for collection in reversed(self._program.collections):
                    objects.delete(self._admin, collection, name)
        except LoginError as error:
            return Line(f"{stack}: {error}", failed=True)
        return Line(f"{stack}: {why}; the Secret {name} is removed")

    def _kept(self, stack: str) -> str:
        if (place := self._others.get(stack)) is not None:
            raise LoginError(
                f"the Secret {object_name(stack)} there is for the stack of this name of {place}: "
                "if that is gone, delete the Secret"
            )
        own = stack == self._admin_name
        way = self._administrator if own else administrator(stack, None)
        with way.client() as api:
            self._program.check(api)
            accounts.keep(api, self._program.account)
            token = self._usable(stack, api)
            renewed = token is None
            if token is None:
                token = accounts.token(api, self._program.account, self._hours)
        login = ClusterLogin(
            stack=stack,
            server=OWN_SERVER if own else way.cluster["server"],
            ca_data=way.cluster["certificate-authority-data"],
            token=token,
        )
        with self._asking_admin():
            documents = self._program.documents(object_name(stack), login)
            for collection, document in zip(self._program.collections, documents, strict=True):
                objects.apply(self._admin, collection, self._marked(stack, document))
        return f"{'a new' if renewed else 'its'} token expires {token.ends:%Y-%m-%d %H:%M} UTC"

    def _usable(self, stack: str, api: httpx.Client) -> Token | None:
        """The present token, if there is no need for another one."""
        secret = self._secrets.get(stack)
        if secret is None or secret["metadata"]["annotations"].get(HOURS) != str(self._hours):
            return None
        try:
            data = {key: b64decode(text).decode() for key, text in secret["data"].items()}
            token = Token.of(self._program.token(data))
        except (LookupError, ValueError):
            return None
        usable = token.fresh and accounts.accepts(api, self._program.account, token)
        return token if usable else None

    def _marked(self, stack: str, document: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {
            **document["metadata"],
            "labels": {
                accounts.LABEL: self._program.account.name,
                **document["metadata"].get("labels", {}),
            },
            "annotations": {STACK: stack, ORIGIN: self._origin, HOURS: str(self._hours)},
        }
        return {**document, "metadata": metadata}

    @contextmanager
    def _asking_admin(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise LoginError(f"{self._admin_name}: {trouble(error)}") from error


def keep(
    logins: Logins,
    stacks: Sequence[str],
    known: Collection[str],
    *,
    remove_gone: bool,
    needed: bool,
) -> Iterator[Line]:
    """Keep the logins at these clusters, all at the same time; a line about each.

    Those of stacks that are not known are gone, whether or not all of these are `needed`.
    """
    lost = set(logins.stacks) - {*stacks, *known}
    with threads(AT_A_TIME) as pool:
        yield from pool.map(
            lambda each: logins.keep(each, remove_gone=remove_gone, needed=needed), stacks
        )
    for stack in sorted(lost):
        yield logins.gone(stack, "its stack is gone", remove=remove_gone)


def object_name(stack: str) -> str:
    """A name for objects about this stack, which may have characters that none of theirs has."""
    plain = re.sub(r"[^a-z0-9]+", "-", stack.lower()).strip("-")
    if plain == stack:
        return f"fleet-{stack}"
    return f"fleet-{plain}-{hashlib.sha256(stack.encode()).hexdigest()[:8]}"


def secret(name: str, data: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """A Secret of these texts."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": dict(labels)},
        "data": {key: b64encode(text.encode()).decode() for key, text in data.items()},
    }
