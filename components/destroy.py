"""The resources that a destroy deletes before all others."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from cloud.login import login_variables
from components.context import Context
from components.control_plane import ControlPlane
from components.outputs import also
from components.ssh import CommandOnDelete
from config.models.cluster import Cluster


def keep_volumes(name: str, context: Context, control_plane: ControlPlane) -> list[pulumi.Resource]:
    """Mark, on destroy and while the API answers, the volumes that outlive the cluster."""
    if not context.cluster.keep_volumes:
        return []
    return [
        CommandOnDelete(
            f"{name}-keep-volumes",
            pulumi.Output.concat("keep_volumes ", context.pki.cluster_id),
            {**login_variables(), "KUBECONFIG_TEXT": control_plane.kubeconfig},
            # It asks the API, which the firewall's rules let it reach.
            pulumi.ResourceOptions(depends_on=[context.network, *control_plane.turns.values()]),
        )
    ]


def protect(
    name: str,
    cluster: Cluster,
    components: Sequence[pulumi.Resource],
    objects: pulumi.Output[Sequence[pulumi.Resource]],
) -> None:
    """Stop a destroy before its first deletion, while `deletionProtection` is set.

    A destroy, unless a preview comes first, deletes whatever nothing protected depends on:
    `objects` are those of charts, which belong to no component of this program.
    """
    pulumi.Stash(
        f"{name}-deletion-protection",
        # Nothing reads it, and it must never change.
        input=cluster.cluster_name,
        opts=pulumi.ResourceOptions(
            depends_on=also(objects, *components),
            protect=cluster.deletion_protection,
        ),
    )
