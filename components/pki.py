"""Every key and certificate that must exist before the first machine."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pulumi
import pulumi_random as random
import pulumi_tls as tls

# kubeadm gives its own CAs ten years.
CA_HOURS = 10 * 365 * 24
# kubeadm gives its client certificates one year; a month before the end an update renews it.
ADMIN_HOURS = 365 * 24
ADMIN_RENEWAL_HOURS = 30 * 24
# The key of secretbox, which encrypts Secrets in etcd.
SECRETBOX_BYTES = 32


@dataclass(frozen=True)
class KeyPair:
    """A certificate (or a public key) with its private key, both PEM."""

    public: pulumi.Output[str]
    private: pulumi.Output[str]


class HostKeys:
    """The two SSH host keys of one machine.

    They are of different types, so that sshd offers both at a time and each connection asks for
    the one that it means.
    """

    def __init__(self, name: str, opts: pulumi.ResourceOptions) -> None:
        # In user_data; good for the first connection only.
        self.one_time = tls.PrivateKey(f"{name}-one-time-host-key", algorithm="ED25519", opts=opts)
        # Sent over the connection that the one-time key vouches for.
        self.permanent = tls.PrivateKey(
            f"{name}-host-key", algorithm="ECDSA", ecdsa_curve="P256", opts=opts
        )


class Pki(pulumi.ComponentResource):
    """Cluster, etcd and front-proxy CAs, service-account key, admin certificate, SSH key.

    `ssh_private_key` is the user's own SSH key, if there is one: existing machines know it already.
    With `protect`, what a living cluster cannot do without is neither deleted nor replaced.
    """

    cluster_ca: KeyPair
    etcd_ca: KeyPair
    front_proxy_ca: KeyPair
    service_account: KeyPair
    admin: KeyPair
    ssh_private_key: pulumi.Output[str]
    ssh_public_key: pulumi.Output[str]
    # Base64.
    encryption_key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        ssh_private_key: pulumi.Output[str] | None,
        protect: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:Pki", name, {}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._kept = pulumi.ResourceOptions(parent=self, protect=protect)
        self._name = name

        self.cluster_ca = self._authority("cluster-ca", "kubernetes")
        self.etcd_ca = self._authority("etcd-ca", "etcd-ca")
        self.front_proxy_ca = self._authority("front-proxy-ca", "front-proxy-ca")
        service_account = self._key("service-account", self._kept)
        self.service_account = KeyPair(
            service_account.public_key_pem, service_account.private_key_pem
        )
        self.admin = self._admin_certificate()

        if ssh_private_key is None:
            ssh = tls.PrivateKey(f"{name}-ssh", algorithm="ED25519", opts=self._kept)
            self.ssh_private_key, self.ssh_public_key = (
                ssh.private_key_openssh,
                ssh.public_key_openssh.apply(str.strip),
            )
        else:
            # `pulumi config set` cuts off the newline at the end, without which ssh takes no key.
            self.ssh_private_key = ssh_private_key.apply(lambda key: f"{key.strip()}\n")
            self.ssh_public_key = tls.get_public_key_output(
                private_key_openssh=self.ssh_private_key
            ).public_key_openssh.apply(str.strip)

        self.encryption_key = pulumi.Output.secret(
            random.RandomBytes(f"{name}-encryption", length=SECRETBOX_BYTES, opts=self._kept).base64
        )
        self.register_outputs({})

    def _key(self, role: str, opts: pulumi.ResourceOptions | None = None) -> tls.PrivateKey:
        return tls.PrivateKey(
            f"{self._name}-{role}", algorithm="ECDSA", ecdsa_curve="P256", opts=opts or self._child
        )

    def _authority(self, role: str, common_name: str) -> KeyPair:
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

    def _admin_certificate(self) -> KeyPair:
        key = self._key("admin")
        request = tls.CertRequest(
            f"{self._name}-admin",
            private_key_pem=key.private_key_pem,
            # kubeadm binds this group to cluster-admin: unlike system:masters it can be unbound.
            subject=tls.CertRequestSubjectArgs(
                common_name="kubernetes-admin", organization="kubeadm:cluster-admins"
            ),
            opts=self._child,
        )
        certificate = tls.LocallySignedCert(
            f"{self._name}-admin",
            ca_private_key_pem=self.cluster_ca.private,
            ca_cert_pem=self.cluster_ca.public,
            cert_request_pem=request.cert_request_pem,
            validity_period_hours=ADMIN_HOURS,
            early_renewal_hours=ADMIN_RENEWAL_HOURS,
            allowed_uses=["digital_signature", "key_encipherment", "client_auth"],
            opts=self._child,
        )
        return KeyPair(certificate.cert_pem, key.private_key_pem)

    def kubeconfig(self, cluster_name: str, server: pulumi.Input[str]) -> pulumi.Output[str]:
        """An administrator's kubeconfig for the API at `server` (a URL). Secret."""

        def encode(pem: str) -> str:
            return base64.b64encode(pem.encode()).decode()

        def build(values: dict[str, str]) -> dict[str, object]:
            return {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": cluster_name,
                "contexts": [
                    {
                        "name": cluster_name,
                        "context": {"cluster": cluster_name, "user": f"{cluster_name}-admin"},
                    }
                ],
                "clusters": [
                    {
                        "name": cluster_name,
                        "cluster": {
                            "server": values["server"],
                            "certificate-authority-data": encode(values["ca"]),
                        },
                    }
                ],
                "users": [
                    {
                        "name": f"{cluster_name}-admin",
                        "user": {
                            "client-certificate-data": encode(values["certificate"]),
                            "client-key-data": encode(values["key"]),
                        },
                    }
                ],
            }

        values = pulumi.Output.all(
            server=server,
            ca=self.cluster_ca.public,
            certificate=self.admin.public,
            key=self.admin.private,
        )
        return pulumi.Output.secret(pulumi.Output.json_dumps(values.apply(build)))
