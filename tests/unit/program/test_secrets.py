"""Places in which no secret may be."""

from __future__ import annotations

import base64

from tests.unit.engine import COMMAND, SERVER, Run, command, file_of, files, run


def test_no_secret_is_in_a_command_line(fresh: Run) -> None:
    for each in [*fresh.all(COMMAND).values(), *fresh.all("local:Command").values()]:
        for text in (each.inputs.get("create"), each.inputs.get("delete")):
            assert text is None or "privateKey" not in text


def test_what_prepares_a_control_plane_needs_no_key(fresh: Run) -> None:
    sent = files(command(fresh, "demo-control-plane-1-prepare"))
    assert sent.keys() == {"ca.crt", "kubeadm-init.yaml", "node.env"}


def test_the_proxy_is_sent_to_every_machine_and_is_in_no_user_data() -> None:
    url = "http://user:hidden@proxy.example.org:3128"
    made = run({"httpProxy": {"http": url}})
    for machine in ("gateway-0", "control-plane-0", "worker-0"):
        sent = file_of(command(made, f"demo-{machine}-configure"), "proxy.env")
        assert f"HTTPS_PROXY={url}" in sent.splitlines()
    for name, each in made.all(SERVER).items():
        assert "hidden" not in each.inputs["userData"], name


def test_user_data_is_smaller_than_nova_allows(fresh: Run) -> None:
    # Base64, as the API takes it; the limit is in nova/api/openstack/compute/schemas/servers.py.
    for name, each in fresh.all(SERVER).items():
        assert len(base64.b64encode(each.inputs["userData"].encode())) < 65535, name


def test_a_secret_among_the_add_ons_conceals_the_charts_values() -> None:
    addons = {"cni": {"kind": "none"}, "cinderCsi": {"enabled": False}}
    chosen = {"addons": {**addons, "metricsServer": {"values": {"a": "hidden"}}}}
    values = ("demo-addons-metrics-server", "values")
    assert values in run(chosen, secret=["addons"]).secret_inputs
    assert values not in run(chosen).secret_inputs
