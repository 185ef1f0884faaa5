"""Generations of what can be replaced without replacing the cluster."""

from typing import Annotated

from pydantic import Field

from config.base import Settings


class Rotation(Settings):
    """Generations of keys and certificates: `pulumi up` replaces what has a higher number."""

    kubeconfig: Annotated[int, Field(ge=1)] = 1
    """Generation of the administrator in the `kubeconfig` output. With another number, the cluster
    refuses every kubeconfig of this output so far, and those that `commands.kubeconfig` made from
    it. Never go back to a number that was used before: its kubeconfigs would work again."""

    cloud_credential: Annotated[int, Field(ge=1)] = 1
    """Generation of the cluster's credential at the cloud. With another number, the old one is
    deleted when the add-ons use the new one."""

    encryption_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the key that encrypts Secrets in etcd. With the next number, every Secret is
    rewritten as `encryptionAtRest` says, and then no API server knows the old key any more. It
    stays in the state, for snapshots of that time. Never go back to a lower number."""

    backup_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the key that snapshots of etcd are encrypted with before they go to
    `backup.bucket`. With the next number, new snapshots need the new key; older ones can still be
    restored, because the keys before it stay in the state."""

    service_account_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the key that signs the tokens of service accounts. With the next number, the
    pods' tokens are replaced, and then every token that the old key has signed is refused. Never go
    back to a lower number."""

    ssh_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the cluster's SSH key. With the next number, every machine accepts the new key,
    and then no older one. Not with `sshPrivateKey`, which is your own. Never go back to a lower
    number."""

    host_keys: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the SSH host keys of all servers. With the next number, each of them shows a
    new key, and then no older one. One number at a time, and never back to a lower one. Machines
    that exist already keep theirs."""

    certificate_authorities: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the CAs of the cluster, of etcd and of the front proxy. The next number takes
    three runs of `pulumi up`, each of which says what comes next: what machines serve and use is
    issued by the new CAs; then the kubeconfigs; then nothing accepts the old ones. One number at a
    time, and never back to a lower one."""

    @property
    def administrators(self) -> str:
        """The group of the administrators of this generation."""
        return f"openstack-kubernetes:administrators-{self.kubeconfig}"
