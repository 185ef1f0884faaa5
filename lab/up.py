"""Bring everything up: tool chain, cloud, images and a cluster made by `pulumi up`."""

from __future__ import annotations

import argparse

from lab import cluster_size


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options for the size of the cluster."""
    cluster_size.add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Bring all of it up; steps that are already done take no time."""
    from lab import image, settings, toolchain
    from lab.backend import CONFIG_FILE
    from lab.cloud import inside, lifecycle
    from lab.cloud.layout import KUBECONFIG
    from lab.console import step
    from lab.stack import Stack

    toolchain.ensure()
    lifecycle.up(fresh=False)
    name = image.ensure()
    stack = Stack(
        "lab",
        settings.cluster(
            image=name,
            control_planes=arguments.control_planes,
            gateways=arguments.gateways,
            workers=arguments.workers,
        ),
        CONFIG_FILE,
    )
    with step("pulumi up"):
        stack.pulumi("up", "--yes", "--skip-preview")
    stack.write_kubeconfig(KUBECONFIG)
    return inside.run(["kubectl", "get", "nodes", "-o", "wide"])
