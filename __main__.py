"""One stack is one cluster: the architecture as a program."""

import pulumi

import cloud
import versions
from components.addons import Addons
from components.context import Context
from components.control_plane import ControlPlane
from components.credential import cloud_configs
from components.destroy import keep_volumes, protect
from components.gateway import Gateway
from components.last_update import LastUpdate
from components.network import Network
from components.node import NodeContext
from components.performance import tune_for_large_stacks
from components.pki import Pki
from components.rollout import RolloutOrder
from components.rotations import finish_rotations, rotation_outputs
from components.worker_pool import WorkerPool
from config.load import cluster_of_stack, secrets_of_stack

tune_for_large_stacks()

cluster = cluster_of_stack()
secrets = secrets_of_stack()
last_update = LastUpdate.of_this_stack()
name_checked = last_update.check_name(cluster)
clusters_of_this_name = cloud.check(cluster) if cluster.cloud_checks else frozenset[str]()
phase = last_update.authorities_phase(cluster)
checked = pulumi.ResourceOptions(depends_on=last_update.check(cluster, after=[name_checked, phase]))

name = cluster.cluster_name
pki = Pki(name, cluster, phase=phase, own_ssh_keys=secrets.ssh_private_keys, opts=checked)
last_update.check_cluster_id(cluster, pki.cluster_id, clusters_of_this_name)
last_update.check_ssh_keys(pki)
network = Network(name, cluster, pki.cluster_id, last_update, checked)

context = Context(
    cluster=cluster,
    network=network,
    pki=pki,
    rollout=RolloutOrder(last_update.machines(cluster)),
    ssh_key_rotation=last_update.ssh_key_rotation(cluster, pki),
    host_key_rotation=last_update.host_key_rotation(cluster),
    volume_zones=last_update.volume_zones(cluster),
)
gateway = Gateway(f"{name}-gateway", context, checked)
inner = NodeContext.behind(gateway, context)
configs = cloud_configs(context)
control_plane = ControlPlane(
    f"{name}-control-plane", inner, cloud_configs=configs, secrets=secrets, opts=checked
)
pools = [
    WorkerPool(f"{name}-{pool.name}", inner, pool=pool, control_plane=control_plane, opts=checked)
    for pool in cluster.pools
]
rotations = finish_rotations(inner, control_plane, pools)
addons = Addons(
    f"{name}-addons", inner, control_plane=control_plane, cloud_configs=configs, secrets=secrets
)
volume_marks = keep_volumes(name, context, control_plane)
everything = [network, pki, gateway, control_plane, *pools, *rotations, addons, *volume_marks]
protect(name, cluster, everything, addons.objects)

pulumi.export("immutableSettings", context.immutable_settings)
pulumi.export("version", versions.PROGRAM)
pulumi.export("clusterId", pki.cluster_id)
pulumi.export("kubernetesVersion", control_plane.version)
pulumi.export("apiEndpoint", inner.endpoint)
pulumi.export("kubeconfig", addons.administrator_kubeconfig)
pulumi.export("gateways", gateway.machines)
machines = [*control_plane.machines, *(machine for pool in pools for machine in pool.machines)]
pulumi.export("nodes", machines)
if addons.object_store is not None:
    pulumi.export("objectStore", addons.object_store)
pulumi.export("sshCommand", gateway.ssh_command)
for key, value in rotation_outputs(context, rotations).items():
    pulumi.export(key, value)
