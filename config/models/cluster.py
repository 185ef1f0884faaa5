"""The configuration of one cluster: every key, and what follows from several of them."""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import Field

import versions
from config.addresses import MAX_GATEWAYS, Addresses, addresses
from config.base import Address, Cidr, DnsLabel, Name, Settings, Url
from config.kubernetes_version import KubernetesVersion
from config.models.addons import AddonsSettings
from config.models.backup import Backup
from config.models.kubernetes import AuditLog, Containerd, Etcd, Kubeadm, Kubelet, KubeProxy, Oidc
from config.models.machines import (
    ControlPlaneSettings,
    GatewaySettings,
    Pool,
    RoleSettings,
    Servers,
    WorkerPoolSettings,
    WorkerSettings,
)
from config.models.surroundings import Dns, ExistingNetwork, HttpProxy, PackageMirrors
from config.values.machine import OddCount, RegistryHost, UserName

DEFAULT_POOL = "worker"


class Cluster(Settings):
    """The configuration of one cluster, which is one stack."""

    cluster_name: Annotated[DnsLabel, Field(examples=["demo"])]
    """Name of the cluster, and first part of every machine's name; the default is the stack's. It
    stays as long as the cluster lives."""
    kubernetes_version: KubernetesVersion = versions.KUBERNETES_VERSION
    """Kubernetes version, with the `v`. Raise it by one minor at a time, never lower it."""
    control_plane_count: OddCount = 3
    """Number of control planes; only an odd number survives a loss better than one fewer."""
    gateway_count: Annotated[int, Field(ge=1, le=MAX_GATEWAYS)] = 2
    """Number of gateways; with one, its loss cuts users off until it is replaced."""
    worker_count: Annotated[int, Field(ge=0)] = 2
    """Number of workers in the default pool, `worker`."""

    image: Name | None = None
    """Name of the image, for every role that names no other."""
    flavor: Name | None = None
    """Name of the flavor, for every role that names no other."""
    ssh_user: UserName = "debian"
    """User that the image's cloud-init gives the SSH key to; stays as long as the cluster lives."""
    gateway: GatewaySettings = GatewaySettings()
    control_plane: ControlPlaneSettings = ControlPlaneSettings()
    worker: WorkerSettings = WorkerSettings()
    """The default pool of workers, `worker`; its size is `workerCount`."""
    worker_pools: tuple[WorkerPoolSettings, ...] = ()
    """Further pools of workers."""

    external_network: Annotated[Name, Field(examples=["public"])]
    """Name of the external network that floating IPs come from."""
    allowed_cidrs: Annotated[tuple[Cidr, ...], Field(min_length=1, examples=[["203.0.113.0/24"]])]
    """Networks that may reach the API and SSH. There is no default: name yours."""
    ingress_cidrs: tuple[Cidr, ...] | None = None
    """Networks that may reach ports 80 and 443; the default is `allowedCidrs`."""
    host_cidr: Cidr = IPv4Network("10.8.0.0/22")
    """Cidr of the machines, at least a /26; a /22 has room for about 990 workers. Like the next
    two, it stays as long as the cluster lives."""
    pod_cidr: Cidr = IPv4Network("10.244.0.0/16")
    """Cidr of the pods, a /24 for each node; a /16 has room for 256 nodes."""
    service_cidr: Cidr = IPv4Network("10.96.0.0/16")
    """Cidr of the Services; its tenth address is the cluster's DNS."""
    existing_network: ExistingNetwork | None = None
    dns_nameservers: tuple[Address, ...] = ()
    """Name servers of the subnet; empty: the cloud's."""
    floating_ip: Address | None = None
    """A floating IP that exists and is free; the default is a new one."""
    dns: Dns | None = None

    kubelet: Kubelet = Kubelet()
    kube_proxy: KubeProxy = KubeProxy()
    kubeadm: Kubeadm = Kubeadm()
    containerd: Containerd = Containerd()
    etcd: Etcd = Etcd()
    backup: Backup = Backup()
    registry_mirrors: Mapping[RegistryHost, Annotated[tuple[Url, ...], Field(min_length=1)]] = (
        Field(default_factory=dict)
    )
    """Registry host (or `_default`) to the URLs of its mirrors, tried in this order."""
    package_mirrors: PackageMirrors = PackageMirrors()
    http_proxy: HttpProxy | None = None
    security_updates: bool = True
    """Whether every machine installs the distribution's security updates, every night."""
    encryption_at_rest: bool = True
    """Whether Secrets are encrypted in etcd. A change covers what is written from then on."""
    audit_log: AuditLog = AuditLog()
    oidc: Oidc | None = None
    addons: AddonsSettings = AddonsSettings()
    cloud_checks: bool = True
    """Whether the cloud is asked at preview about names, quotas and what else could fail later."""

    @property
    def addresses(self) -> Addresses:
        """Which address of `hostCidr` belongs to whom."""
        return addresses(self.host_cidr)

    @property
    def immutable_settings(self) -> Mapping[str, str]:
        """Keys that a cluster cannot change while it lives, and their values."""
        return {
            "hostCidr": str(self.host_cidr),
            "podCidr": str(self.pod_cidr),
            "serviceCidr": str(self.service_cidr),
            # The machines learn it at their first boot.
            "sshUser": self.ssh_user,
        }

    @property
    def vip_name(self) -> str:
        """The name of the port that holds the gateways' virtual address."""
        return f"{self.cluster_name}-vip"

    @property
    def api_name(self) -> str:
        """The name by which every node reaches the API; on every node it means 127.0.0.1."""
        return f"api.{self.cluster_name}.internal"

    @property
    def ingress_sources(self) -> tuple[IPv4Network, ...]:
        """Networks that may reach ports 80 and 443."""
        return self.allowed_cidrs if self.ingress_cidrs is None else self.ingress_cidrs

    @property
    def machine_cidrs(self) -> tuple[IPv4Network, ...]:
        """Each machine that exists already as a network of one address."""
        machines = [machine for pool in self.worker_pools for machine in pool.machines]
        return tuple(IPv4Network(machine.address) for machine in machines)

    @property
    def dns_name(self) -> str | None:
        """The full name in Designate, with the final dot, or None without one."""
        if self.dns is None:
            return None
        return f"{self.dns.name or self.cluster_name}.{self.dns.zone.rstrip('.')}."

    def node_name(self, group: str, index: int) -> str:
        """The name of a machine: of a `gateway`, a `control-plane`, or one of a pool."""
        return f"{self.cluster_name}-{group}-{index}"

    @property
    def gateway_servers(self) -> Servers:
        """How gateways are made."""
        return self._servers(self.gateway)

    @property
    def control_plane_servers(self) -> Servers:
        """How control planes are made."""
        return self._servers(self.control_plane)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool of workers, the default one first, with all defaults filled in."""
        default = WorkerPoolSettings.model_construct(
            **dict(self.worker), name=DEFAULT_POOL, count=self.worker_count, machines=()
        )
        return tuple(self._pool(each) for each in (default, *self.worker_pools))

    def _servers(self, role: RoleSettings) -> Servers:
        # `load` has refused a configuration in which a role that makes servers lacks either.
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
            server_group_policy=pool.server_group_policy,
        )
