"""Every key and certificate that must exist before the first machine."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_random as random
import pulumi_tls as tls

from components.authorities import Authorities, Generation
from components.key_pair import KeyPair, numbered
from config.cluster_id import cluster_id
from config.errors import ConfigError, Fault
from config.models.cluster import Cluster

# kubeadm gives its own CAs ten years.
CA_HOURS = 10 * 365 * 24
# kubeadm gives its client certificates one year; a month before the end an update renews it.
ADMINISTRATOR_HOURS = 365 * 24
ADMINISTRATOR_RENEWAL_HOURS = 30 * 24
# kubeadm binds it to cluster-admin before anything else exists.
PROGRAM_GROUP = "kubeadm:cluster-admins"
# The key of secretbox, which encrypts Secrets in etcd.
SECRETBOX_BYTES = 32


@dataclass(frozen=True)
class Identity(KeyPair):
    """A client certificate of the API with its key, and the name of its user."""

    user: str


def _own_ssh_key(text: pulumi.Output[str]) -> KeyPair:
    # `pulumi config set` cuts off the newline at the end, without which ssh takes no key.
    private = text.apply(lambda key: f"{key.strip()}\n")
    public = tls.get_public_key_output(private_key_openssh=private).public_key_openssh
    return KeyPair(public.apply(str.strip), private)


class Pki(pulumi.ComponentResource):
    """Cluster, etcd and front-proxy CAs, service-account key, client certificates, SSH key.

    `cluster.rotation` has their generations: those before the newest stay as they are, except that
    the administrator gets another key with another group. `phase` is that of the newest CAs.
    `own_ssh_keys` are the user's, if there are any, the newest last: machines know the first one.
    What a running cluster cannot do without is neither deleted nor replaced, if it is protected.
    """

    authorities: Authorities
    # Sign the tokens of service accounts: that of the first generation first.
    service_accounts: Sequence[KeyPair]
    # What the program itself, its scripts and the add-ons use: no one else has it.
    program: Identity
    # What the user gets.
    administrator: Identity
    ssh_private_key: pulumi.Output[str]
    ssh_public_key: pulumi.Output[str]
    # Every generation, OpenSSH's formats: the first one first.
    ssh_keys: Sequence[KeyPair]
    # Marks what is the cluster's in the cloud; another cluster of the same name has another one.
    cluster_id: pulumi.Output[str]
    # Close and open the snapshots of etcd in the bucket: that of the first generation first.
    backups: Sequence[KeyPair]
    # Of Secrets in etcd, base64: that of the first generation first.
    encryption_keys: Sequence[pulumi.Output[str]]

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        phase: pulumi.Output[str],
        own_ssh_keys: Sequence[pulumi.Output[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:Pki", name, {}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._kept = pulumi.ResourceOptions(parent=self, protect=cluster.deletion_protection)
        self._name = name
        rotation = cluster.rotation

        generations = self._generations(rotation.certificate_authorities)
        self.authorities = Authorities(generations, phase)
        self.cluster_id = generations[0].cluster.public.apply(
            lambda certificate: cluster_id(name, certificate)
        )
        self.service_accounts = [
            self._key_pair(numbered("service-account", generation))
            for generation in range(1, rotation.service_account_key + 1)
        ]
        self.program = self._program()
        self.administrator = self._administrator(rotation.administrators)
        self.backups = [
            self._backup_certificate(numbered("backup", generation))
            for generation in range(1, rotation.backup_key + 1)
        ]

        if own_ssh_keys and rotation.ssh_key > 1:
            problem = "sshPrivateKey is your own: see 'Your own SSH key' in docs/operations.md"
            raise ConfigError([Fault("rotation.sshKey", rotation.ssh_key, problem)])
        self.ssh_keys = [_own_ssh_key(key) for key in own_ssh_keys] or [
            self._ssh_key(numbered("ssh", generation))
            for generation in range(1, rotation.ssh_key + 1)
        ]
        self.ssh_private_key = self.ssh_keys[-1].private
        self.ssh_public_key = self.ssh_keys[-1].public

        self.encryption_keys = [
            self._encryption_key(numbered("encryption", generation))
            for generation in range(1, rotation.encryption_key + 1)
        ]
        self.register_outputs({})

    def _ssh_key(self, role: str) -> KeyPair:
        key = tls.PrivateKey(f"{self._name}-{role}", algorithm="ED25519", opts=self._kept)
        return KeyPair(key.public_key_openssh.apply(str.strip), key.private_key_openssh)

    def _encryption_key(self, role: str) -> pulumi.Output[str]:
        return pulumi.Output.secret(
            random.RandomBytes(
                f"{self._name}-{role}", length=SECRETBOX_BYTES, opts=self._kept
            ).base64
        )

    def _key(self, role: str, opts: pulumi.ResourceOptions | None = None) -> tls.PrivateKey:
        return tls.PrivateKey(
            f"{self._name}-{role}", algorithm="ECDSA", ecdsa_curve="P256", opts=opts or self._child
        )

    def _key_pair(self, role: str) -> KeyPair:
        key = self._key(role, self._kept)
        return KeyPair(key.public_key_pem, key.private_key_pem)

    def _generations(self, newest: int) -> list[Generation]:
        found: list[Generation] = []
        for number in range(1, newest + 1):
            cluster = self._authority("cluster-ca", "kubernetes", number)
            found.append(
                Generation(
                    cluster=cluster,
                    etcd=self._authority("etcd-ca", "etcd-ca", number),
                    front_proxy=self._authority("front-proxy-ca", "front-proxy-ca", number),
                    cross_signed=self._cross_signed(cluster, found[-1].cluster, number)
                    if found
                    else None,
                )
            )
        return found

    def _cross_signed(self, authority: KeyPair, by: KeyPair, number: int) -> pulumi.Output[str]:
        role = numbered("cluster-ca", number)
        request = tls.CertRequest(
            f"{self._name}-{role}",
            private_key_pem=authority.private,
            subject=tls.CertRequestSubjectArgs(common_name=numbered("kubernetes", number)),
            opts=self._child,
        )
        return tls.LocallySignedCert(
            f"{self._name}-{role}",
            ca_private_key_pem=by.private,
            ca_cert_pem=by.public,
            cert_request_pem=request.cert_request_pem,
            is_ca_certificate=True,
            set_subject_key_id=True,
            validity_period_hours=CA_HOURS,
            allowed_uses=["digital_signature", "key_encipherment", "cert_signing"],
            opts=self._child,
        ).cert_pem

    def _authority(self, role: str, common_name: str, number: int) -> KeyPair:
        """One CA. With equal names, OpenSSL could take one generation for another."""
        role, common_name = numbered(role, number), numbered(common_name, number)
        key = self._key(role, self._kept)
        certificate = tls.SelfSignedCert(
            f"{self._name}-{role}",
            private_key_pem=key.private_key_pem,
            is_ca_certificate=True,
            set_subject_key_id=True,
            subject=tls.SelfSignedCertSubjectArgs(common_name=common_name),
            dns_names=[common_name],
            validity_period_hours=CA_HOURS,
            allowed_uses=["digital_signature", "key_encipherment", "cert_signing"],
            opts=self._kept,
        )
        return KeyPair(certificate.cert_pem, key.private_key_pem)

    def _backup_certificate(self, role: str) -> KeyPair:
        key = self._key(role, self._kept)
        certificate = tls.SelfSignedCert(
            f"{self._name}-{role}",
            private_key_pem=key.private_key_pem,
            subject=tls.SelfSignedCertSubjectArgs(common_name="etcd-backups"),
            validity_period_hours=CA_HOURS,
            allowed_uses=["key_agreement"],
            opts=self._kept,
        )
        return KeyPair(certificate.cert_pem, key.private_key_pem)

    def _program(self) -> Identity:
        # The resources have had this name since before there was an administrator.
        return self._identity(
            "admin",
            self._key("admin"),
            user="openstack-kubernetes",
            group=PROGRAM_GROUP,
            # A node is drained with what the last update left in the state, however long ago.
            hours=CA_HOURS,
        )

    def _administrator(self, group: str) -> Identity:
        key = self._key(
            "administrator",
            pulumi.ResourceOptions.merge(
                self._child,
                # A new certificate for a key that has leaked would be no secret.
                pulumi.ResourceOptions(replacement_trigger=group),
            ),
        )
        return self._identity(
            "administrator",
            key,
            user="administrator",
            group=group,
            hours=ADMINISTRATOR_HOURS,
            renewal_hours=ADMINISTRATOR_RENEWAL_HOURS,
        )

    def _identity(
        self,
        role: str,
        key: tls.PrivateKey,
        *,
        user: str,
        group: str,
        hours: int,
        renewal_hours: int | None = None,
    ) -> Identity:
        request = tls.CertRequest(
            f"{self._name}-{role}",
            private_key_pem=key.private_key_pem,
            subject=tls.CertRequestSubjectArgs(common_name=user, organization=group),
            opts=self._child,
        )
        issuer = self.authorities.issuer()
        certificate = tls.LocallySignedCert(
            f"{self._name}-{role}",
            ca_private_key_pem=issuer.private,
            ca_cert_pem=issuer.public,
            cert_request_pem=request.cert_request_pem,
            validity_period_hours=hours,
            early_renewal_hours=renewal_hours,
            allowed_uses=["digital_signature", "key_encipherment", "client_auth"],
            opts=self._child,
        )
        return Identity(certificate.cert_pem, key.private_key_pem, user)

    def kubeconfig(self, identity: Identity, server: pulumi.Input[str]) -> pulumi.Output[str]:
        """A kubeconfig with this identity for the API at `server` (a URL). Secret."""
        cluster = self._name
        user = f"{cluster}-{identity.user}"

        def encode(pem: str) -> str:
            return base64.b64encode(pem.encode()).decode()

        def build(values: dict[str, str]) -> dict[str, object]:
            return {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": cluster,
                "contexts": [
                    {
                        "name": cluster,
                        "context": {"cluster": cluster, "user": user},
                    }
                ],
                "clusters": [
                    {
                        "name": cluster,
                        "cluster": {
                            "server": values["server"],
                            "certificate-authority-data": encode(values["ca"]),
                        },
                    }
                ],
                "users": [
                    {
                        "name": user,
                        "user": {
                            "client-certificate-data": encode(values["certificate"]),
                            "client-key-data": encode(values["key"]),
                        },
                    }
                ],
            }

        values = pulumi.Output.all(
            server=server,
            ca=self.authorities.bundle(),
            certificate=identity.public,
            key=identity.private,
        )
        return pulumi.Output.secret(pulumi.Output.json_dumps(values.apply(build)))
