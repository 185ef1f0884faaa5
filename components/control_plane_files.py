"""The files of a control plane: kubeadm's configuration, CAs, what the API server and pods read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from addons.cloud_conf import CloudConfig
from components import api_server_files, kubeadm
from components.pki import Pki
from config.models.cluster import Cluster
from config.models.machines import Taint

CONTROL_PLANE_TAINT = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")


def kubeadm_files(
    cluster: Cluster,
    name: str,
    index: int,
    *,
    provider_id: pulumi.Output[str],
    floating_ip: pulumi.Output[str],
) -> dict[str, pulumi.Input[str]]:
    """`kubeadm init` and `kubeadm join` of the control plane with this name and number."""

    def registration(provider: str) -> kubeadm.Registration:
        return kubeadm.Registration(
            name=name,
            address=str(cluster.addresses.control_planes[index]),
            provider_id=provider,
            taints=[CONTROL_PLANE_TAINT],
            external_cloud_provider=cluster.addons.cloud_controller_manager.enabled,
            ignore_preflight_errors=cluster.kubeadm.ignore_preflight_errors,
        )

    return {
        "kubeadm-init.yaml": pulumi.Output.all(provider_id, floating_ip).apply(
            lambda both: kubeadm.init_file(
                cluster, _certificate_names(cluster, both[1]), registration(both[0])
            )
        ),
        "kubeadm-join.yaml": provider_id.apply(
            lambda provider: kubeadm.join_file(registration(provider), control_plane=True)
        ),
    }


def _certificate_names(cluster: Cluster, floating_ip: str) -> Sequence[str]:
    """Names and addresses in the API server's certificate, in addition to the node's own."""
    names = [cluster.api_name, "127.0.0.1", str(cluster.addresses.vip), floating_ip]
    return names if cluster.dns_name is None else [*names, cluster.dns_name.rstrip(".")]


def pki_files(pki: Pki) -> dict[str, pulumi.Input[str]]:
    """The CAs with their keys, and every service-account key by its number."""
    files = pki.authorities.files()
    for generation, key in enumerate(pki.service_accounts, start=1):
        files[f"service-account/{generation}.pub"] = key.public
        files[f"service-account/{generation}.key"] = key.private
    return files


def kubernetes_files(cluster: Cluster, pki: Pki) -> dict[str, pulumi.Input[str]]:
    """The files that the API server reads in /etc/kubernetes, most of them below `etc/`."""
    return {
        "encryption.yaml": pulumi.Output.all(*pki.encryption_keys).apply(
            lambda keys: api_server_files.encryption_configuration(
                keys, encrypt=cluster.encryption_at_rest
            )
        ),
        "etc/authentication.yaml": api_server_files.authentication_configuration(cluster.oidc),
        "etc/admission.yaml": api_server_files.admission_configuration(cluster.pod_security),
        # Also without an audit log: the first machine that joins after it was switched off begins
        # with the arguments that the cluster has stored.
        "etc/audit-policy.yaml": api_server_files.audit_policy(cluster.audit_log.policy),
    }


def cloud_config_files(configs: Mapping[str, CloudConfig]) -> dict[str, pulumi.Input[str]]:
    """The folder of each program that logs in to the cloud, below `cloud/`."""
    return {
        f"cloud/{program}/{name}": text
        for program, config in configs.items()
        for name, text in config.files.items()
    }
