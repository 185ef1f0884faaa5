"""What runs in the cluster from the start: pod network, cloud controller manager, volumes, ..."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from addons import (
    chart,
    cilium,
    cinder_csi,
    cloud_controller_manager,
    fluent_bit,
    headlamp,
    ingress,
    kured,
    logging,
    metrics_server,
    monitoring,
    snapshot_schedules,
    snapshots,
)
from addons.api import when_it_answers
from addons.chart import Chart
from addons.cloud_conf import Credential
from addons.install import Installer, mirror_images
from addons.monitoring.targets import MonitoringTargets
from config.models.addons import AddonsSettings
from config.models.backup import Backup


@dataclass(frozen=True, kw_only=True)
class AddonsArgs:
    """What the add-ons must know of the cluster."""

    settings: AddonsSettings
    # Whether something in the settings is secret.
    with_secrets: bool
    # Whether chart repositories and the API are asked if they are there, before they are needed.
    checks: bool
    cluster_name: str
    control_plane_count: int
    # Unknown until the cluster exists.
    kubeconfig: pulumi.Input[str]
    # Of the machines' network.
    mtu: pulumi.Input[int]
    subnet_id: pulumi.Input[str]
    external_network_id: pulumi.Input[str]
    host_cidr: str
    pod_cidr: str
    # Every gateway's name and address, and the address that one of them holds.
    gateways: Mapping[str, str]
    vip: str
    # Milliseconds between the heartbeats of etcd's leader.
    etcd_heartbeat: int
    # Snapshots of etcd.
    backup: Backup
    # Where the gateways send HTTP and HTTPS, on every node.
    ingress_node_ports: tuple[int, int]
    # Where people reach them.
    floating_ip: pulumi.Input[str]
    credential: Credential
    # What the add-ons that nodes can be Ready without leave the machines to, at first.
    control_planes: Sequence[pulumi.Resource]
    # How people log in to the dashboard; None: with a token.
    login: headlamp.OidcLogin | None = None


class Addons(pulumi.ComponentResource):
    """Every enabled add-on, by one Kubernetes provider.

    The pod network and the cloud controller manager come first, beside each other: neither needs
    the other, and no ordinary pod can start before both run. The others follow when every control
    plane is Ready.
    """

    provider: kubernetes.Provider

    def __init__(
        self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        settings = args.settings
        chart.check(charts(settings), settings, ask=args.checks and pulumi.runtime.is_dry_run())
        if settings.image_registry is not None:
            opts = pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(transforms=[mirror_images(settings.image_registry)])
            )
        super().__init__("openstack-kubernetes:cluster:Addons", name, {}, opts)
        self._args = args
        self.provider = kubernetes.Provider(
            name,
            kubeconfig=when_it_answers(args.kubeconfig) if args.checks else args.kubeconfig,
            # Without a name of its own the cluster is its kubeconfig, and a renewed certificate
            # would replace every object.
            cluster_identifier=args.cluster_name,
            # A refresh keeps what it cannot ask about, so that the machines can be refreshed.
            skip_update_unreachable=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._installer = Installer(
            name=name,
            parent=self,
            provider=self.provider,
            settings=settings,
            with_secrets=args.with_secrets,
        )
        settled = [*self._foundation(), *args.control_planes]
        self._cluster_services(settled)
        self._services(settled)
        self.register_outputs({})

    def _foundation(self) -> list[pulumi.Resource]:
        """What every ordinary pod needs."""
        args, settings = self._args, self._args.settings
        made: list[pulumi.Resource] = []
        if settings.cni.kind == "cilium":
            made.append(
                cilium.install(
                    self._installer,
                    settings.cni,
                    control_planes=args.control_plane_count,
                    mtu=args.mtu,
                )
            )
        if settings.cloud_controller_manager.enabled:
            made.append(
                cloud_controller_manager.install(
                    self._installer,
                    settings.cloud_controller_manager,
                    cluster_name=args.cluster_name,
                    credential=args.credential,
                    octavia=self._octavia(),
                )
            )
        return made

    def _octavia(self) -> dict[str, pulumi.Input[str]] | None:
        if not self._args.settings.octavia:
            return None
        return {
            "subnet-id": self._args.subnet_id,
            "floating-network-id": self._args.external_network_id,
            # Its health checks are what makes externalTrafficPolicy Local work.
            "create-monitor": "true",
            # The cluster's own rules let load balancers in.
            "manage-security-groups": "false",
        }

    def _cluster_services(self, after: Sequence[pulumi.Resource]) -> None:
        """What extends Kubernetes itself; it runs without any worker."""
        args, settings, installer = self._args, self._args.settings, self._installer
        if settings.metrics_server.enabled:
            metrics_server.install(installer, settings.metrics_server, after=after)
        if settings.snapshots.enabled:
            snapshots.install(installer, settings.snapshots, after=after)
        if settings.cinder_csi.enabled:
            cinder_csi.install(
                installer,
                settings.cinder_csi,
                cluster_name=args.cluster_name,
                control_planes=args.control_plane_count,
                credential=args.credential,
                after=after,
            )

    def _services(self, after: Sequence[pulumi.Resource]) -> None:
        """What runs on the workers."""
        args, settings, installer = self._args, self._args.settings, self._installer
        # What is targets has objects of kinds that come with the monitoring.
        targets = [*after]
        if settings.monitoring.enabled:
            targets.append(
                monitoring.install(
                    installer,
                    settings.monitoring,
                    targets=self._watched(),
                    logs=settings.logging
                    if settings.logging.enabled and settings.logging.grafana
                    else None,
                    after=after,
                )
            )
        if settings.ingress.enabled:
            ingress.install(
                installer,
                settings.ingress,
                node_ports=args.ingress_node_ports,
                address=args.floating_ip,
                # A node port hides the sender behind an address of the node, also its pod one.
                trusted_cidrs=[args.host_cidr, args.pod_cidr],
                monitored=settings.monitoring.enabled,
                after=targets,
            )
        if settings.headlamp.enabled:
            headlamp.install(
                installer,
                settings.headlamp,
                login=args.login,
                # The classes are called like the controllers.
                ingress_class=settings.ingress.controller if settings.ingress.enabled else None,
                after=after,
            )
        if settings.logging.enabled:
            logging.install(
                installer,
                settings.logging,
                monitored=settings.monitoring.enabled,
                after=targets,
            )
        if settings.kured.enabled:
            prometheus = monitoring.PROMETHEUS_URL if settings.monitoring.enabled else None
            kured.install(installer, settings.kured, prometheus_url=prometheus, after=targets)

    def _watched(self) -> MonitoringTargets:
        args, settings = self._args, self._args.settings
        return MonitoringTargets(
            gateways=args.gateways,
            vip=args.vip,
            control_planes=args.control_plane_count,
            etcd_heartbeat=args.etcd_heartbeat,
            backup_hours=args.backup.interval_hours,
            backup_places=args.backup.places,
            ingress=settings.ingress.enabled and settings.load_balancer == "gateway",
            snapshot_jobs=[each.name for each in settings.snapshots.schedules]
            if settings.snapshots.enabled
            else (),
            snapshot_namespace=snapshot_schedules.NAMESPACE,
            reboots=settings.kured.enabled,
        )


def charts(settings: AddonsSettings) -> list[Chart]:
    """Every chart that these settings install."""
    wanted = {
        cilium.CHART: settings.cni.kind == "cilium",
        cinder_csi.CHART: settings.cinder_csi.enabled,
        metrics_server.CHART: settings.metrics_server.enabled,
        snapshots.CHART: settings.snapshots.enabled,
        monitoring.CHART: settings.monitoring.enabled,
        ingress.chart(settings.ingress): settings.ingress.enabled,
        headlamp.CHART: settings.headlamp.enabled,
        logging.CHART: settings.logging.enabled,
        fluent_bit.CHART: settings.logging.enabled,
        kured.CHART: settings.kured.enabled,
    }
    return [each for each, enabled in wanted.items() if enabled]
