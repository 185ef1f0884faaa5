"""One stack is one cluster: reads the configuration and wires the components."""

import pulumi

import cloud
from addons import headlamp
from components.addons import Addons, AddonsArgs
from components.control_plane import ControlPlane, ControlPlaneArgs
from components.credential import cloud_credential
from components.gateway import INGRESS_NODE_PORTS, Gateway, GatewayArgs
from components.network import Network, NetworkArgs
from components.node_folder import node_files, node_variables, reboot_variables
from components.performance import prepare_for_many_resources
from components.pki import Pki, PkiArgs
from components.previous_outputs import PreviousOutputs
from components.rollout import RolloutOrder
from components.worker_pool import WorkerPool, WorkerPoolArgs
from config import load

prepare_for_many_resources()

cluster = load.from_pulumi()
secrets = load.secrets_from_pulumi()
existing = PreviousOutputs.of_this_stack()
rollout = RolloutOrder(existing.names)
name = cluster.cluster_name
machine_environment = node_variables(cluster)
existing.check(cluster)
if cluster.cloud_checks:
    cloud.check(cluster)

network = Network(
    name,
    NetworkArgs(
        cluster_name=name,
        addresses=cluster.addresses,
        external_network=cluster.external_network,
        dns_nameservers=[str(address) for address in cluster.dns_nameservers],
        allowed_cidrs=[str(cidr) for cidr in cluster.allowed_cidrs],
        ingress_cidrs=[str(cidr) for cidr in cluster.ingress_sources],
        machine_cidrs=[str(cidr) for cidr in cluster.machine_cidrs],
        gateway_count=cluster.gateway_count,
        ingress_ports=INGRESS_NODE_PORTS,
        login_environment=cloud.login_variables(),
        monitored=cluster.addons.monitoring.enabled,
        octavia=cluster.addons.octavia,
        existing=cluster.existing_network,
    ),
)

pki = Pki(name, PkiArgs(cluster_name=name, ssh_private_key=secrets.ssh_private_key))
existing.check_ssh_key(pki.ssh_private_key)
files_of_nodes = node_files(cluster, pki.cluster_ca.public)

gateway = Gateway(
    f"{name}-gateway",
    GatewayArgs(
        cluster_name=name,
        count=cluster.gateway_count,
        settings=cluster.gateway_servers,
        server_group_policy=cluster.gateway.server_group_policy,
        addresses=cluster.addresses,
        vip_name=cluster.vip_name,
        immutable_settings=cluster.immutable_settings,
        network=network,
        pki=pki,
        external_network=cluster.external_network,
        floating_ip=str(cluster.floating_ip) if cluster.floating_ip else None,
        dns_zone=cluster.dns.zone if cluster.dns else None,
        dns_name=cluster.dns_name,
        ssh_user=cluster.ssh_user,
        package_mirrors=cluster.package_mirrors,
        ingress_proxy_protocol=cluster.addons.ingress.enabled,
        monitored=cluster.addons.monitoring.enabled,
        reboots=reboot_variables(cluster.addons.kured),
        environment=machine_environment,
        rollout=rollout,
    ),
)

control_plane = ControlPlane(
    f"{name}-control-plane",
    ControlPlaneArgs(
        cluster=cluster,
        network=network,
        gateway=gateway,
        pki=pki,
        rollout=rollout,
        environment=machine_environment,
        node_files=files_of_nodes,
        backup_secret_key=secrets.backup_secret_key,
        certificate_names=[
            cluster.api_name,
            "127.0.0.1",
            str(cluster.addresses.vip),
            gateway.floating_ip,
            *([cluster.dns_name.rstrip(".")] if cluster.dns_name else []),
        ],
    ),
)

pools = [
    WorkerPool(
        f"{name}-{pool.name}",
        WorkerPoolArgs(
            cluster=cluster,
            pool=pool,
            network=network,
            gateway=gateway,
            control_plane=control_plane,
            pki=pki,
            rollout=rollout,
            environment=machine_environment,
            node_files=files_of_nodes,
        ),
    )
    for pool in cluster.pools
]

endpoint = pulumi.Output.concat("https://", gateway.floating_ip, ":6443")
kubeconfig = pki.kubeconfig(name, endpoint)

Addons(
    f"{name}-addons",
    AddonsArgs(
        settings=cluster.addons,
        with_secrets="addons" in secrets.keys,
        checks=cluster.cloud_checks,
        cluster_name=name,
        control_plane_count=cluster.control_plane_count,
        # Until the API has answered once there is no cluster to ask, whatever its address.
        kubeconfig=control_plane.api_ready.id.apply(lambda _: kubeconfig),
        mtu=network.mtu,
        subnet_id=network.subnet_id,
        external_network_id=network.external_network_id,
        host_cidr=str(cluster.host_cidr),
        pod_cidr=str(cluster.pod_cidr),
        gateways=gateway.addresses,
        vip=str(cluster.addresses.vip),
        etcd_heartbeat=cluster.etcd.heartbeat_interval,
        backup=cluster.backup,
        ingress_node_ports=INGRESS_NODE_PORTS,
        floating_ip=gateway.floating_ip,
        credential=cloud_credential(name, cloud.endpoint()),
        control_planes=[gate for _, gate in control_plane.gates],
        login=headlamp.OidcLogin(
            issuer_url=cluster.oidc.issuer_url,
            client_id=cluster.oidc.client_id,
            client_secret=secrets.oidc_client_secret,
        )
        if cluster.oidc
        else None,
    ),
    # A destroy takes the machines: what runs on them need not be removed piece by piece.
    pulumi.ResourceOptions(depends_on=[control_plane.api_ready], deleted_with=network.anchor),
)

pulumi.export("apiEndpoint", endpoint)
pulumi.export("kubeconfig", kubeconfig)
pulumi.export("gateways", gateway.nodes)
pulumi.export(
    "nodes",
    [
        *control_plane.nodes,
        *(node for pool in pools for node in pool.nodes),
    ],
)
pulumi.export(
    "sshCommand",
    pulumi.Output.format(
        "ssh -J {0}@{1} {0}@ADDRESS  # addresses: pulumi stack output nodes",
        cluster.ssh_user,
        gateway.floating_ip,
    ),
)
pulumi.export("sshPrivateKey", pki.ssh_private_key)
pulumi.export("kubernetesVersion", control_plane.version)
