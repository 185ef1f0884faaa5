"""Generations of what can be replaced without replacing the cluster."""

from typing import Annotated

from pydantic import Field

from config.base import Settings


class Rotation(Settings):
    """Generations of keys and certificates: raise one, and `pulumi up` replaces them."""

    kubeconfig: Annotated[int, Field(ge=1)] = 1
    """Generation of the administrator in the `kubeconfig` output. When it is raised, the cluster
    refuses every earlier kubeconfig of this output, and those that `commands.kubeconfig` made from
    it. Never go back to a number that was used before: its kubeconfigs would work again."""

    cloud_credential: Annotated[int, Field(ge=1)] = 1
    """Generation of the cluster's cloud credential. When it is raised, the old credential is
    deleted as soon as the add-ons use the new one."""

    encryption_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the key that encrypts Secrets in etcd. When it is raised, every Secret is
    rewritten as `encryptionAtRest` says, and then no API server knows the old key any more. It
    stays in the state, for snapshots of that time. Never go back to a lower number."""

    backup_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the key that snapshots of etcd are encrypted with before they go to
    `backup.bucket`. When it is raised, new snapshots are encrypted with the new key; older ones can
    still be restored, because earlier keys stay in the state. Never go back to a lower number."""

    service_account_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the key that signs the tokens of service accounts. When it is raised, the pods'
    tokens are replaced, and then every token that the old key has signed is refused. Never go back
    to a lower number."""

    ssh_key: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the cluster's SSH key. When it is raised, every machine accepts the new key,
    and then no older one. Not with `sshPrivateKey`, which is your own. Never go back to a lower
    number."""

    host_keys: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the SSH host keys of all servers. When it is raised, each of them shows a new
    key, and then no older one. One number at a time, and never back to a lower one. Machines that
    exist already keep theirs."""

    certificate_authorities: Annotated[int, Field(ge=1, le=99)] = 1
    """Generation of the CAs of the cluster, of etcd and of the front proxy. Raising it takes three
    runs of `pulumi up`, each of which says what comes next: first the new CAs issue what machines
    serve and use; then the kubeconfigs; then nothing accepts the old CAs any more. One number at a
    time, and never back to a lower one."""

    @property
    def administrators(self) -> str:
        """The group of the administrators of this generation."""
        return f"openstack-kubernetes:administrators-{self.kubeconfig}"
