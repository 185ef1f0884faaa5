"""The configuration of one cluster: every key, and values that follow from several of them."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import Annotated, Literal

from pydantic import Field

import versions
from config.addresses import MAX_GATEWAYS, Addresses, addresses
from config.base import Settings
from config.models.addons import AddonsSettings
from config.models.backup import Backup
from config.models.cloud_credential import CloudCredential
from config.models.kubernetes import (
    ApiServer,
    AuditLog,
    Containerd,
    ControllerManager,
    Etcd,
    Kubeadm,
    Kubelet,
    KubeProxy,
    Oidc,
    Scheduler,
    Timeouts,
)
from config.models.machines import (
    ControlPlaneSettings,
    ExistingMachine,
    GatewaySettings,
    Pool,
    RoleSettings,
    Servers,
    WorkerPoolSettings,
    WorkerSettings,
    etcd_volume_name,
)
from config.models.mirrors import HttpProxy, PackageMirrors
from config.models.network import Dns, ExistingNetwork
from config.models.rotation import Rotation
from config.values.kubernetes import ControlPlaneCount, KubernetesVersion, WorkerCount
from config.values.machine import UserName
from config.values.network import COMMAS, Address, Cidr, DnsLabel, Host, Url
from config.values.repositories import RegistryHost
from config.values.text import Name

DEFAULT_POOL = "worker"
VIP_SUFFIX = "-vip"


class Cluster(Settings):
    """The configuration of one cluster, which is one stack."""

    cluster_name: Annotated[DnsLabel, Field(examples=["demo"])]
    """Name of the cluster, and the first part of every machine's name; the default is the name of
    the stack. It cannot be changed while the cluster exists."""
    kubernetes_version: KubernetesVersion = versions.KUBERNETES_VERSION
    """Kubernetes version, with the `v`: 1.35, 1.36 or 1.37. Upgrade one minor version at a time; a
    downgrade is refused."""
    control_plane_count: ControlPlaneCount = 3
    """Number of control planes: 1, 3 or 5. With 3 the cluster survives the loss of one, with 5 of
    two."""
    gateway_count: Annotated[int, Field(ge=1, le=MAX_GATEWAYS)] = 2
    """Number of gateways. If the only one fails, users cannot reach the cluster until it is
    replaced."""
    worker_count: WorkerCount = 2
    """Number of workers in the default pool, `worker`."""

    image: Name | None = None
    """Name of the image for every role that does not set its own."""
    flavor: Name | None = None
    """Name of the flavor for every role that does not set its own."""
    ssh_user: UserName = "debian"
    """Name that cloud-init gives to the user with sudo on each server, who gets the SSH key. It
    cannot be changed while the cluster exists."""
    gateway: GatewaySettings = GatewaySettings()
    control_plane: ControlPlaneSettings = ControlPlaneSettings()
    worker: WorkerSettings = WorkerSettings()
    """The default pool of workers, `worker`; its size is `workerCount`."""
    worker_pools: tuple[WorkerPoolSettings, ...] = ()
    """Additional pools of workers."""

    external_network: Annotated[Name, Field(examples=["public"])]
    """Name of the external network that provides floating IPs. Without `existingNetwork`, it cannot
    be changed while the cluster exists; with it, change it like `floatingIp`."""
    allowed_cidrs: Annotated[
        tuple[Cidr, ...], COMMAS, Field(min_length=1, examples=[["203.0.113.0/24"]])
    ]
    """Networks that may reach the API and SSH, as a list or separated by commas. There is no
    default; use the networks you work from."""
    ingress_cidrs: Annotated[tuple[Cidr, ...], COMMAS] | None = None
    """Networks that may reach ports 80 and 443; the default, also for an empty list, is
    `allowedCidrs`."""
    host_cidr: Cidr = IPv4Network("10.8.0.0/22")
    """Network of the machines, a /26 or larger; a /22 has room for about 990 workers. It must not
    overlap with another cluster's in the project. It cannot be changed while the cluster exists."""
    pod_cidr: Cidr = IPv4Network("10.244.0.0/16")
    """Network of the pods; each node gets a /24 of it, so a /16 has room for 256 nodes. It cannot
    be changed while the cluster exists."""
    service_cidr: Cidr = IPv4Network("10.96.0.0/16")
    """Network of the Services; its tenth address is the cluster's DNS server. It cannot be changed
    while the cluster exists."""
    existing_network: ExistingNetwork | None = None
    dns_nameservers: Annotated[tuple[Address, ...], COMMAS] = ()
    """DNS servers of the subnet; the default is those of the cloud."""
    time_servers: Annotated[tuple[Host, ...], COMMAS] = ()
    """Time servers (NTP) of every machine; the default is those of the image. A machine whose clock
    is off by more than 30 seconds does not join."""
    floating_ip: Address | None = None
    """An existing floating IP that is not in use; the default is a new one. Change it in an update
    of its own: nodes that leave or are replaced are drained through the address."""
    dns: Dns | None = None

    kubelet: Kubelet = Kubelet()
    kube_proxy: KubeProxy = KubeProxy()
    api_server: ApiServer = ApiServer()
    controller_manager: ControllerManager = ControllerManager()
    scheduler: Scheduler = Scheduler()
    kubeadm: Kubeadm = Kubeadm()
    containerd: Containerd = Containerd()
    etcd: Etcd = Etcd()
    timeouts: Timeouts = Timeouts()
    backup: Backup = Backup()
    registry_mirrors: Mapping[RegistryHost, Annotated[tuple[Url, ...], Field(min_length=1)]] = (
        Field(default_factory=dict)
    )
    """Mirrors by registry host, or `_default` for all others: a list of URLs, tried in order."""
    package_mirrors: PackageMirrors = PackageMirrors()
    http_proxy: HttpProxy | None = None
    security_updates: bool = True
    """Install the distribution's security updates on every machine, every night."""
    encryption_at_rest: bool = True
    """Encrypt Secrets in etcd. A change applies to Secrets that are written afterwards, and to all
    of them once `rotation.encryptionKey` is 2 or more."""
    pod_security: Literal["privileged", "baseline", "restricted"] = "baseline"
    """Pod Security level of the namespaces that have no label
    `pod-security.kubernetes.io/enforce`, except kube-system. Running pods are left alone."""
    audit_log: AuditLog = AuditLog()
    oidc: Oidc | None = None
    cloud_credential: CloudCredential = CloudCredential()
    rotation: Rotation = Rotation()
    addons: AddonsSettings = AddonsSettings()
    deletion_protection: bool = True
    """Refuse `pulumi destroy`, and every update that would delete or replace etcd's volumes, keys,
    CAs, the network, or the volume of the object store."""
    keep_volumes: bool = False
    """Keep, on destroy, the volumes of PersistentVolumes whose reclaim policy is `Retain`, with
    their snapshots."""
    cloud_checks: bool = True
    """Check at preview that the cloud has the names, quotas and services that the cluster needs."""

    @property
    def addresses(self) -> Addresses:
        """The addresses in `hostCidr` that machines have."""
        return addresses(self.host_cidr)

    @property
    def immutable_settings(self) -> Mapping[str, str]:
        """The keys that cannot be changed while the cluster exists, and their values."""
        return {
            "hostCidr": str(self.host_cidr),
            "podCidr": str(self.pod_cidr),
            "serviceCidr": str(self.service_cidr),
            # Machines get it at their first boot.
            "sshUser": self.ssh_user,
        }

    @property
    def vip_name(self) -> str:
        """The name of the port that holds the gateways' virtual address."""
        return f"{self.cluster_name}{VIP_SUFFIX}"

    @property
    def floating_ip_description(self) -> str:
        """The description of the floating IP that the cluster makes for itself."""
        return f"Kubernetes cluster {self.cluster_name}: API, ingress, SSH"

    @property
    def api_name(self) -> str:
        """The name by which every node reaches the API; on every node it is 127.0.0.1."""
        return f"api.{self.cluster_name}.internal"

    @property
    def ingress_sources(self) -> tuple[IPv4Network, ...]:
        """Networks that may reach ports 80 and 443."""
        return self.allowed_cidrs if self.ingress_cidrs is None else self.ingress_cidrs

    @property
    def object_store_sources(self) -> tuple[IPv4Network, ...]:
        """Networks that may reach the object store; none if there is no object store."""
        store = self.addons.object_store
        if not store.enabled:
            return ()
        return self.allowed_cidrs if store.cidrs is None else store.cidrs

    @property
    def machine_cidrs(self) -> tuple[IPv4Network, ...]:
        """The addresses of all machines that exist already, in as few networks as possible."""
        machines = self.keyed_machines.values()
        return tuple(collapse_addresses(IPv4Network(machine.address) for machine in machines))

    @property
    def dns_name(self) -> str | None:
        """The full name in Designate, with the final dot; None if there is none."""
        if self.dns is None:
            return None
        return f"{self.dns.name or self.cluster_name}.{self.dns.zone}"

    def machine_name(self, group: str, index: int) -> str:
        """The name of a machine; the group is `gateway`, `control-plane` or the name of a pool."""
        return f"{self.cluster_name}-{group}-{index}"

    @property
    def keyed_pools(self) -> Mapping[str, WorkerPoolSettings]:
        """The settings of the pools next to the default one, by their keys: `workerPools[0]`."""
        return {f"workerPools[{i}]": pool for i, pool in enumerate(self.worker_pools)}

    @property
    def keyed_machines(self) -> Mapping[str, ExistingMachine]:
        """The machines that exist already, by their keys: `workerPools[0].machines[0]`."""
        return {
            f"{key}.machines[{i}]": machine
            for key, pool in self.keyed_pools.items()
            for i, machine in enumerate(pool.machines)
        }

    @property
    def machine_names(self) -> list[str]:
        """The names of all machines, those that exist already included."""
        groups = {"gateway": self.gateway_count, "control-plane": self.control_plane_count}
        groups |= {pool.name: pool.count for pool in self.pools}
        made = [
            self.machine_name(group, i) for group, count in groups.items() for i in range(count)
        ]
        return [*made, *(machine.name for pool in self.pools for machine in pool.machines)]

    @property
    def nodes_for_every_pod(self) -> int:
        """The number of workers that any pod may run on."""
        return sum(pool.nodes_for_every_pod for pool in self.pools)

    @property
    def gateway_addresses(self) -> tuple[IPv4Address, ...]:
        """The addresses of the gateways that there are."""
        return self.addresses.gateways[: self.gateway_count]

    @property
    def control_plane_names(self) -> list[str]:
        """The names of the control planes that there are."""
        return [self.machine_name("control-plane", i) for i in range(self.control_plane_count)]

    @property
    def control_plane_addresses(self) -> tuple[IPv4Address, ...]:
        """The addresses of the control planes that there are."""
        return self.addresses.control_planes[: self.control_plane_count]

    @property
    def etcd_volume_names(self) -> list[str]:
        """The names that etcd's volumes have, if there are any."""
        return [etcd_volume_name(name) for name in self.control_plane_names]

    @property
    def gateway_servers(self) -> Servers:
        """The servers of the gateways."""
        return self._servers(self.gateway)

    @property
    def control_plane_servers(self) -> Servers:
        """The servers of the control planes."""
        return self._servers(self.control_plane)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool of workers, the default one first, with all defaults filled in."""
        default = WorkerPoolSettings.model_construct(
            **dict(self.worker), name=DEFAULT_POOL, count=self.worker_count, machines=()
        )
        return tuple(self._pool(each) for each in (default, *self.worker_pools))

    def _servers(self, role: RoleSettings) -> Servers:
        # `load` refuses a role that has servers but no flavor or image.
        return Servers(
            flavor=role.flavor or self.flavor or "",
            image=role.image or self.image or "",
            volume=role.volume,
            availability_zones=role.availability_zones,
        )

    def _pool(self, pool: WorkerPoolSettings) -> Pool:
        return Pool(
            name=pool.name,
            count=pool.count,
            machines=pool.machines,
            servers=self._servers(pool),
            labels=pool.labels,
            taints=pool.taints,
            max_unavailable=pool.max_unavailable,
            max_unhealthy=pool.max_unhealthy,
            delete_local_volumes=pool.delete_local_volumes,
            server_group_policy=pool.server_group_policy,
        )
