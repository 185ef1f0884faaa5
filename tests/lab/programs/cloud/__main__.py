"""A small program with the OpenStack resources of the project's own, as `want` lists them."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_openstack as openstack

from tests.lab.programs.cloud import networks, servers

config = pulumi.Config()
# Set for each step of the test.
want: dict[str, Any] = config.require_object("want")
public_key = config.require("publicKey")

network = networks.Network(want["ports"], want["moving"], want["floating"])
keypair = openstack.compute.Keypair("key", name="key", public_key=public_key)
made = {
    name: servers.server(name, keypair, network.ports[name], settings)
    for name, settings in want["servers"].items()
}
servers.data_volume(made[want["volume"]] if want["volume"] else None)

pulumi.export("addresses", {name: ip.address for name, ip in network.floating.items()})
pulumi.export("servers", {name: server.id for name, server in made.items()})
if want["credential"]:
    credential = openstack.identity.ApplicationCredential(
        "credential", name="credential", roles=["member", "reader"]
    )
    pulumi.export("credential", {"id": credential.id, "secret": credential.secret})
