"""Everything: tool chain, cloud, images and a cluster, from `pulumi up` on the lab's stack."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """How large the cluster is."""
    parser.add_argument("--control-planes", type=int, default=3)
    parser.add_argument("--gateways", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)


def run(arguments: argparse.Namespace) -> int:
    """Bring all of it up; every step that is done already takes no time."""
    from lab import clients, image, settings, toolchain
    from lab.backend import CONFIG_FILE
    from lab.cloud import inside, lifecycle
    from lab.cloud.layout import KUBECONFIG
    from lab.console import step
    from lab.stack import Stack

    toolchain.ensure()
    lifecycle.up(fresh=False)
    name = image.ensure()
    clients.link_kubectl()
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
