"""The add-ons of a cluster: pod network, cloud controller manager, volumes, monitoring, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from addons import (
    administrators,
    chart,
    cilium,
    cinder_csi,
    cloud_controller_manager,
    fluent_bit,
    headlamp,
    ingress,
    ingress_exposure,
    kured,
    logging,
    metrics_server,
    monitoring,
    node_dns,
    object_store,
    operator,
    snapshot_schedules,
    snapshots,
)
from addons.api import when_it_answers
from addons.chart import Chart
from addons.cloud_conf import CloudConfig
from addons.image_mirror import mirror_images
from addons.installer import Installer
from addons.monitoring.targets import MonitoringTargets
from components.control_plane import ControlPlane
from components.left_kubeconfigs import remove_at_exit
from components.node import NodeContext
from config.load import Secrets
from config.models.addons import AddonsSettings
from config.models.cluster import Cluster
from config.values.kubernetes import seconds


class Addons(pulumi.ComponentResource):
    """Every enabled add-on, by one Kubernetes provider.

    The pod network and the cloud controller manager come first, alongside each other: neither needs
    the other, and no ordinary pod can start before both run. The others follow when every control
    plane is Ready.
    """

    # Objects of all charts, which to the engine are no children of this component.
    objects: pulumi.Output[Sequence[pulumi.Resource]]
    # The administrator's, through the floating IP; known when the cluster accepts it.
    administrator_kubeconfig: pulumi.Output[str]
    # What the users of the object store need, if there is one.
    object_store: Mapping[str, Any] | None

    def __init__(
        self,
        name: str,
        context: NodeContext,
        *,
        control_plane: ControlPlane,
        cloud_configs: Mapping[str, CloudConfig],
        secrets: Secrets,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        cluster, settings = context.cluster, context.cluster.addons
        online = cluster.cloud_checks and pulumi.runtime.is_dry_run()
        chart.check(charts(settings), settings, online=online)
        own = pulumi.ResourceOptions(
            depends_on=[control_plane.api_ready],
            # A destroy takes the machines: what runs on them need not be removed piece by piece.
            deleted_with=context.network.anchor,
            transforms=[mirror_images(settings.image_registry)] if settings.image_registry else [],
        )
        super().__init__(
            "openstack-kubernetes:cluster:Addons",
            name,
            {},
            pulumi.ResourceOptions.merge(own, opts),
        )
        self._context = context
        self._settings = settings
        self._secrets = secrets
        self._cloud_configs = cloud_configs
        self._installer = Installer(
            name=name,
            parent=self,
            provider=self._kubernetes_provider(name, control_plane.kubeconfig),
            settings=settings,
            with_secrets="addons" in secrets.settings_with_secrets,
        )
        self.administrator_kubeconfig = self._administrators()
        foundation = self._foundation()
        ready = [*foundation, *control_plane.turns.values()]
        self._cluster_services(ready)
        self._services(ready)
        self.object_store = self._object_store(ready)
        self.objects = _flat(self._installer.chart_objects)
        self.register_outputs({})

    def _kubernetes_provider(
        self, name: str, kubeconfig: pulumi.Output[str]
    ) -> kubernetes.Provider:
        cluster = self._context.cluster
        remove_at_exit(kubeconfig)
        return kubernetes.Provider(
            name,
            kubeconfig=when_it_answers(kubeconfig) if cluster.cloud_checks else kubeconfig,
            # Without a name of its own the cluster is its kubeconfig, and a renewed certificate
            # would replace every object.
            cluster_identifier=cluster.cluster_name,
            # What a killed run created or changed and did not write down is taken back, whatever
            # field manager that run had.
            upsert_existing_objects=True,
            enable_patch_force=True,
            # A refresh keeps what it cannot ask about, so that the machines can be refreshed.
            skip_update_unreachable=True,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _administrators(self) -> pulumi.Output[str]:
        cluster, pki = self._context.cluster, self._context.pki
        binding = administrators.install(self._installer, group=cluster.rotation.administrators)
        kubeconfig = pki.kubeconfig(pki.administrator, self._context.endpoint)
        return binding.id.apply(lambda _: kubeconfig)

    def _foundation(self) -> list[pulumi.Resource]:
        """Install what every ordinary pod needs."""
        cluster, settings, installer = self._context.cluster, self._settings, self._installer
        installed: list[pulumi.Resource] = []
        if settings.cni.kind == "cilium":
            installed.append(
                cilium.install(
                    installer,
                    settings.cni,
                    control_plane_count=cluster.control_plane_count,
                    mtu=self._context.network.mtu,
                    node_dns=settings.node_dns_installed,
                )
            )
        if settings.cloud_controller_manager.enabled:
            installed.append(
                cloud_controller_manager.install(
                    installer,
                    settings.cloud_controller_manager,
                    cluster_id=self._context.pki.cluster_id,
                    config=self._cloud_configs[cloud_controller_manager.NAME],
                )
            )
        return installed

    def _cluster_services(self, after: Sequence[pulumi.Resource]) -> None:
        """Install extensions of Kubernetes itself, which run without any worker."""
        cluster, settings, installer = self._context.cluster, self._settings, self._installer
        if settings.node_dns_installed:
            node_dns.install(installer, after=after)
        if settings.metrics_server.enabled:
            metrics_server.install(installer, settings.metrics_server, after=after)
        if settings.snapshots.enabled:
            snapshots.install(installer, settings.snapshots, after=after)
        if self._context.volume_zones is not None:
            cinder_csi.install(
                installer,
                settings.cinder_csi,
                cluster_id=self._context.pki.cluster_id,
                control_plane_count=cluster.control_plane_count,
                config=self._cloud_configs[cinder_csi.CHART.name],
                zoned=self._context.volume_zones,
                after=after,
            )

    def _services(self, after: Sequence[pulumi.Resource]) -> None:
        """Install what runs on the workers."""
        cluster, settings, installer = self._context.cluster, self._settings, self._installer
        # What is monitored has objects of kinds that come with the monitoring.
        after_monitoring = [*after]
        if settings.monitoring.enabled:
            after_monitoring.append(
                monitoring.install(
                    installer,
                    settings.monitoring,
                    targets=self._monitoring_targets(),
                    logs=settings.logging
                    if settings.logging.enabled and settings.logging.grafana
                    else None,
                    # Dashboards may be published, and kured asks for alerts.
                    admitted=[ingress_exposure.NAMESPACE, kured.NAMESPACE],
                    after=after,
                )
            )
        if settings.ingress.enabled:
            ingress.install(
                installer,
                settings.ingress,
                address=self._context.gateway.floating_ip,
                # A node port hides the sender behind an address of the node, also its pod one; a
                # load balancer of the cloud has another one of the subnet.
                trusted_cidrs=[self._context.network.subnet_cidr, str(cluster.pod_cidr)],
                sources=[str(cidr) for cidr in cluster.ingress_sources],
                workers=cluster.nodes_for_every_pod,
                after=after_monitoring,
            )
        if settings.headlamp.enabled:
            headlamp.install(
                installer,
                settings.headlamp,
                login=self._oidc_login(),
                # Each controller's IngressClass has its name.
                ingress_class=settings.ingress.controller if settings.ingress.enabled else None,
                after=after,
            )
        if settings.logging.enabled:
            logging.install(installer, settings.logging, after=after_monitoring)
        if settings.operator.enabled:
            operator.install(installer, settings.operator, after=after_monitoring)
        if settings.kured.enabled:
            kured.install(
                installer,
                settings.kured,
                control_planes=[str(address) for address in cluster.control_plane_addresses],
                after=after_monitoring,
            )

    def _object_store(self, after: Sequence[pulumi.Resource]) -> Mapping[str, Any] | None:
        cluster, settings = self._context.cluster, self._settings.object_store
        if not settings.enabled:
            return None
        address = object_store.StoreAddress(
            addresses=[self._context.gateway.floating_ip, str(cluster.addresses.vip)],
            names=[] if cluster.dns_name is None else [cluster.dns_name.rstrip(".")],
        )
        return object_store.install(
            self._installer,
            settings,
            address=address,
            protect=cluster.deletion_protection,
            after=after,
        )

    def _oidc_login(self) -> headlamp.OidcLogin | None:
        oidc = self._context.cluster.oidc
        if oidc is None:
            return None
        return headlamp.OidcLogin(
            issuer_url=oidc.issuer_url,
            client_id=oidc.client_id,
            client_secret=self._secrets.oidc_client_secret,
            ca_certificate=oidc.ca_certificate,
        )

    def _monitoring_targets(self) -> MonitoringTargets:
        cluster, settings = self._context.cluster, self._settings
        return MonitoringTargets(
            gateways=_gateway_addresses(cluster),
            vip=str(cluster.addresses.vip),
            control_plane_count=cluster.control_plane_count,
            etcd_heartbeat=cluster.etcd.heartbeat_interval,
            certificate_seconds=seconds(cluster.kubeadm.certificate_validity_period),
            backup_hours=cluster.backup.interval_hours,
            backup_places=cluster.backup.places,
            ingress=settings.ingress.enabled and not settings.octavia,
            snapshot_jobs=[each.name for each in settings.snapshots.schedules]
            if settings.snapshots.enabled
            else (),
            snapshot_namespace=snapshot_schedules.NAMESPACE,
            stack_retries=(operator.NAMESPACE, operator.RETRIES)
            if settings.operator.enabled
            else None,
            reboots=settings.kured.enabled,
            fleet=settings.monitoring.fleet,
        )


def _flat(
    outputs: Sequence[pulumi.Output[Sequence[pulumi.Resource]]],
) -> pulumi.Output[Sequence[pulumi.Resource]]:
    found = pulumi.Output.all(*outputs)
    return found.apply(lambda lists: [each for one in lists for each in one])


def _gateway_addresses(cluster: Cluster) -> Mapping[str, str]:
    return {
        cluster.machine_name("gateway", index): str(address)
        for index, address in enumerate(cluster.gateway_addresses)
    }


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
        operator.CHART: settings.operator.enabled,
        kured.CHART: settings.kured.enabled,
    }
    return [each for each, enabled in wanted.items() if enabled]
