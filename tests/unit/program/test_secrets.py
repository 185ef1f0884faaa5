"""Places in which no secret may be."""

from __future__ import annotations

import base64

from tests.unit.engine import (
    CLOUDS_OWN,
    COMMAND,
    LOGIN,
    SERVER,
    Recorded,
    Run,
    command,
    file_of,
    files,
    run,
)
from tests.unit.program.settings import BACKUP_SECRET_KEY, PROXY_PASSWORD

# As the mocks make them, and as the configuration has them.
SECRETS = (
    "privateKey",
    " bytes",
    CLOUDS_OWN["ApplicationCredential"]["secret"],
    LOGIN["OS_PASSWORD"],
    PROXY_PASSWORD,
    BACKUP_SECRET_KEY,
)


def commands(of: Run) -> list[Recorded]:
    return [*of.all(COMMAND).values(), *of.all("local:Command").values()]


def test_no_secret_is_in_a_command_line(everything: Run) -> None:
    for each in commands(everything):
        shown = str([each.inputs.get(key) for key in ("create", "delete", "triggers")])
        assert not [secret for secret in SECRETS if secret in shown], each.name


def test_what_a_command_is_given_is_a_secret_of_the_state(everything: Run) -> None:
    given = [
        (each.name, key)
        for each in commands(everything)
        for key in ("stdin", "environment")
        if key in each.inputs
    ]
    assert {key for _, key in given} == {"stdin", "environment"}
    assert set(given) <= everything.secret_inputs


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
