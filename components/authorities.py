"""The certificate authorities, and which of their generations an update uses.

A rotation takes three updates (docs/decisions/0018-certificate-authorities.md): machines come to be
issued by the new ones, then the program's own certificates, then nothing trusts the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pulumi

from components.key_pair import KeyPair

# The file names of kubeadm.
_CLUSTER, _FRONT_PROXY, _ETCD = "ca", "front-proxy-ca", "etcd/ca"


class Phase(StrEnum):
    """The part of a rotation that an update does."""

    # The machines trust both, and what they serve and use is issued by the new ones.
    ISSUE = "issue"
    # Program and administrator get certificates of the new ones.
    USE = "use"
    # Nothing trusts the old ones any more.
    FORGET = "forget"
    # There are no old ones.
    DONE = "done"

    @property
    def reached(self) -> Phase:
        """The phase that the output shows after a successful update."""
        return Phase.DONE if self is Phase.FORGET else self

    @property
    def of_machines(self) -> Phase:
        """The phase that machines are told: `USE` and `DONE` ask nothing new of them."""
        return Phase.ISSUE if self in (Phase.ISSUE, Phase.USE) else Phase.FORGET

    def announce(self, generation: int) -> None:
        """Say what this update does, and what comes next."""
        if self in _ANNOUNCEMENTS:
            pulumi.log.info(
                f"rotation.certificateAuthorities = {generation}, {_ANNOUNCEMENTS[self]}"
            )


_ANNOUNCEMENTS = {
    Phase.ISSUE: "update 1 of 3: all machines trust the old and the new CAs, and the new ones "
    "issue what they serve and use. Then run pulumi up again",
    Phase.USE: "update 2 of 3: kubeconfigs are issued by the new CA, and the old ones still work. "
    "Then have everyone fetch a new kubeconfig, and run pulumi up again",
    Phase.FORGET: "update 3 of 3: nothing accepts the old CAs, or kubeconfigs issued by them, "
    "any more",
}


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One generation of the three authorities."""

    cluster: KeyPair
    front_proxy: KeyPair
    etcd: KeyPair
    # The key of `cluster`, certified by the one before it: who trusts that one only can follow.
    cross_signed: pulumi.Output[str] | None = None

    @property
    def by_name(self) -> dict[str, KeyPair]:
        """The authorities by kubeadm's names of their files, without an ending."""
        return {_CLUSTER: self.cluster, _FRONT_PROXY: self.front_proxy, _ETCD: self.etcd}


class Authorities:
    """All generations, the first one first, as an update in this phase uses them."""

    def __init__(self, generations: Sequence[Generation], phase: pulumi.Output[str]) -> None:
        self.newest = generations[-1]
        self._cross_signed = [
            each.cross_signed for each in reversed(generations) if each.cross_signed is not None
        ]
        self.phase = phase
        self._before = generations[-2] if len(generations) > 1 else None

    def issuer(self) -> KeyPair:
        """The cluster's authority that signs what the program itself uses."""
        return self._issuing(_CLUSTER)

    def bundle(self) -> pulumi.Output[str]:
        """The cluster's authorities that are trusted, the one that issues first."""
        return self._trusted(_CLUSTER)

    def files(self) -> dict[str, pulumi.Input[str]]:
        """The files of a control plane by path; below `pki/` they have kubeadm's names.

        Machines that join begin with the ones that issue in this phase. The newest ones are in
        `pki/next/`, from where they take the place of those in use.
        """
        found: dict[str, pulumi.Input[str]] = {}
        for name, newest in self.newest.by_name.items():
            found[f"pki/{name}.crt"] = self._trusted(name)
            found[f"pki/{name}.key"] = self._issuing(name).private
            if self._before is not None:
                found[f"pki/next/{name}.crt"] = newest.public
                found[f"pki/next/{name}.key"] = newest.private
        if self._cross_signed:
            # All of them: a pod may run since before the first rotation, and know no other CA.
            found["pki/next/cross-signed.crt"] = pulumi.Output.concat(*self._cross_signed)
        return found

    def _issuing(self, name: str) -> KeyPair:
        newest = self.newest.by_name[name]
        if self._before is None:
            return newest
        before = self._before.by_name[name]

        def choose(old: pulumi.Output[str], new: pulumi.Output[str]) -> pulumi.Output[str]:
            chosen: pulumi.Output[str] = pulumi.Output.all(self.phase, old, new).apply(
                lambda values: values[1] if values[0] == Phase.ISSUE else values[2]
            )
            return chosen

        return KeyPair(choose(before.public, newest.public), choose(before.private, newest.private))

    def _trusted(self, name: str) -> pulumi.Output[str]:
        newest = self.newest.by_name[name].public
        if self._before is None:
            return newest
        found: pulumi.Output[str] = pulumi.Output.all(
            self.phase, self._before.by_name[name].public, newest
        ).apply(lambda values: _bundle(*values))
        return found


def _bundle(phase: str, before: str, newest: str) -> str:
    match phase:
        case Phase.ISSUE:
            return before + newest
        case Phase.USE:
            return newest + before
        case _:
            return newest
