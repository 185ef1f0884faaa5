"""gateway.sh: what it writes, and that it interrupts no one."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from tests.scripts.conftest import COMMON, Machine
from tests.unit.http_servers import Silent, served

GATEWAY = {
    **COMMON,
    "ROLE": "gateway",
    "NODE_NAME": "demo-gateway-1",
    "NODE_IP": "10.8.0.12",
    "VIP": "10.8.0.10",
    "VRRP_ID": "11",
    "GATEWAY_ADDRESSES": "10.8.0.11 10.8.0.12",
    "GATEWAY_PLACES": "10.8.0.11 10.8.0.12 10.8.0.13 10.8.0.14",
}

HAPROXY = "etc/haproxy/haproxy.cfg"
KEEPALIVED = "etc/keepalived/keepalived.conf"


@pytest.fixture
def gateway(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A gateway on eth7, whose settings the test may change."""

    def make(**values: str) -> Machine:
        machine = make_machine({**GATEWAY, **values})
        machine.answer(
            "^ip -o -4 address",
            "2: eth7    inet 10.8.0.12/24 metric 9 brd 10.8.0.255 scope global eth7\\    valid\n",
        )
        return machine

    return make


def section(text: str, head: str) -> str:
    """One section of haproxy.cfg."""
    found = re.search(rf"^{re.escape(head)}\n((?:  .*\n)+)", text, re.MULTILINE)
    assert found, text
    return found.group(1)


def test_haproxy(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    config = machine.read(HAPROXY)
    front = section(config, "frontend api")
    for bind in ("10.8.0.10:6443", "127.0.0.1:6443", "127.0.0.1:7443"):
        assert f"  bind {bind}\n" in front
    back = section(config, "backend api")
    assert "http-check send meth GET uri /readyz" in back
    assert "check check-ssl verify required ca-file" in back
    assert "inter 500ms fastinter 200ms" in back
    # tcp-ut is ignored in default-server, and shutdown-sessions leaves clients hanging.
    for last in range(21, 26):
        assert f"  server 10.8.0.{last} 10.8.0.{last}:6443 tcp-ut 2s\n" in back
    assert "shutdown-sessions" not in config
    assert "server 10.8.0.22 10.8.0.22:30443" in section(config, "listen ingress-https")
    assert "proxy-v2" not in config
    assert "server gateway-1 10.8.0.12:22" in section(config, "listen ssh-1")
    assert "bind 10.8.0.10:2201" in section(config, "listen ssh-1")
    assert "bind 127.0.0.1:" in section(config, "frontend health")


def test_the_ingress_is_told_the_clients_address_when_it_wants_to(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway(INGRESS_PROXY_PROTOCOL="true")
    machine.run("gateway/gateway.sh", "configure")
    assert "send-proxy-v2 check-send-proxy" in section(machine.read(HAPROXY), "listen ingress-http")


def test_the_object_store_is_behind_its_node_port(gateway: Callable[..., Machine]) -> None:
    machine = gateway(OBJECT_STORE_PORT="7070", OBJECT_STORE_NODE_PORT="30070")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    store = section(machine.read(HAPROXY), "listen object-store")
    assert "bind 10.8.0.10:7070" in store
    assert "server 10.8.0.21 10.8.0.21:30070" in store


def test_the_object_store_gets_no_proxy_protocol_and_may_not_exist(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway(
        OBJECT_STORE_PORT="7070", OBJECT_STORE_NODE_PORT="30070", INGRESS_PROXY_PROTOCOL="true"
    )
    machine.run("gateway/gateway.sh", "configure")
    assert "proxy" not in section(machine.read(HAPROXY), "listen object-store")
    without = gateway()
    without.run("gateway/gateway.sh", "configure")
    assert "object-store" not in without.read(HAPROXY)


def test_users_of_the_ingress_cannot_shut_the_api_out(gateway: Callable[..., Machine]) -> None:
    machine = gateway(OBJECT_STORE_PORT="7070", OBJECT_STORE_NODE_PORT="30070")
    machine.run("gateway/gateway.sh", "configure")
    config = machine.read(HAPROXY)
    # A connection has two ends, and HAProxy keeps some files for itself.
    [files] = re.findall(r"fd-hard-limit (\d+)", config)
    users = [
        int(re.findall(r"  maxconn (\d+)\n", section(config, f"listen {name}"))[0])
        for name in ("ingress-http", "ingress-https", "object-store")
    ]
    assert sum(users) < int(files) / 2 - 3000


def test_ports_are_those_of_node_env(gateway: Callable[..., Machine]) -> None:
    ports = {key: str(int(value) + 10000) for key, value in COMMON.items() if "_PORT" in key}
    machine = gateway(**ports)
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    health = "usr/local/lib/openstack-kubernetes/haproxy-health.sh"
    text = machine.read(HAPROXY) + machine.read(health)
    unused = {"ETCD_CLIENT_PORT", "ETCD_PEER_PORT", "NODE_EXPORTER_PORT"}
    unused |= {"CONTROLLER_MANAGER_METRICS_PORT", "SCHEDULER_METRICS_PORT"}
    for key in COMMON.keys() & ports.keys() - unused:
        assert re.search(rf"\b{ports[key]}\b", text), key
        assert not re.search(rf"[:/]{COMMON[key]}\b", text), key


def test_without_the_ca_there_is_only_ssh(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    (machine.folder / "ca.crt").unlink()
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    config = machine.read(HAPROXY)
    assert "frontend api" not in config
    assert "listen ssh-0" in config


def test_gateways_ask_each_other_whether_they_are_alive(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    status = section(machine.read(HAPROXY), "frontend status")
    assert "  bind 10.8.0.12:8405\n  bind 10.8.0.10:8405\n" in status
    assert "path /healthz" in status
    assert "prometheus" not in status


def test_haproxys_metrics_are_on_the_page_of_its_status(gateway: Callable[..., Machine]) -> None:
    machine = gateway(METRICS="true")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    status = section(machine.read(HAPROXY), "frontend status")
    assert "use-service prometheus-exporter if { path /metrics }" in status


class TestReboots:
    UNIT = "openstack-kubernetes-reboot"
    WINDOW: ClassVar[Mapping[str, str]] = {
        "REBOOT_DAYS": "sa su",
        "REBOOT_START": "01:00",
        "REBOOT_END": "05:00",
        "REBOOT_TIME_ZONE": "UTC",
    }

    def test_each_gateway_decides_at_a_minute_of_its_own(
        self, gateway: Callable[..., Machine]
    ) -> None:
        machine = gateway(**self.WINDOW)
        assert machine.run("gateway/gateway.sh", "configure").status == 0
        timer = machine.read(f"etc/systemd/system/{self.UNIT}.timer")
        assert "OnCalendar=*-*-* *:04/20:00 UTC\n" in timer
        machine.order("systemctl daemon-reload", f"systemctl restart -- {self.UNIT}.timer")
        service = machine.read(f"etc/systemd/system/{self.UNIT}.service")
        script = re.search(r"ExecStart=/bin/bash (\S+) check", service)
        assert script is not None
        assert Path(script.group(1)).is_file()

    def test_a_second_run_starts_nothing_again(self, gateway: Callable[..., Machine]) -> None:
        machine = gateway(**self.WINDOW)
        machine.run("gateway/gateway.sh", "configure")
        assert machine.run("gateway/gateway.sh", "configure").status == 0
        assert not machine.called("systemctl restart")

    def test_they_end_when_they_are_no_longer_wanted(self, gateway: Callable[..., Machine]) -> None:
        machine = gateway(**self.WINDOW)
        machine.run("gateway/gateway.sh", "configure")
        machine.node_env(GATEWAY)
        assert machine.run("gateway/gateway.sh", "configure").status == 0
        machine.order(f"systemctl --quiet disable --now -- {self.UNIT}.timer", "daemon-reload")
        assert not machine.has(f"etc/systemd/system/{self.UNIT}.timer")
        assert machine.run("gateway/gateway.sh", "configure").status == 0
        assert not machine.called(self.UNIT)


def test_keepalived(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    config = machine.read(KEEPALIVED)
    for line in (
        "vrrp_version 3", "vrrp_garp_master_repeat 3", "enable_script_security", "state BACKUP",
        "nopreempt", "interface eth7", "virtual_router_id 11", "advert_int 0.3", "priority 190",
        "unicast_src_ip 10.8.0.12", "10.8.0.10/32 dev eth7",
    ):  # fmt: skip
        assert f"  {line}\n" in config, line
    peers = re.search(r"\n  unicast_peer \{\n([^}]+)\}", config)
    assert peers
    assert peers.group(1).split() == ["10.8.0.11", "10.8.0.13", "10.8.0.14"]


def test_those_that_stay_still_hear_the_gateway_that_leaves(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway(GATEWAY_ADDRESSES="10.8.0.11 10.8.0.12 10.8.0.13")
    machine.run("gateway/gateway.sh", "configure")
    machine.node_env(GATEWAY)
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    assert machine.called("systemctl reload") == ["systemctl reload -- haproxy.service"]
    assert "    10.8.0.13\n" in machine.read(KEEPALIVED)


def test_sshd_takes_many_at_once(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    config = machine.read("etc/ssh/sshd_config.d/10-openstack-kubernetes.conf")
    assert "MaxStartups 200:30:400\nMaxSessions 200\n" in config
    assert "PasswordAuthentication no\n" in config
    machine.order("sshd -t", "systemctl try-reload-or-restart ssh.service")


def test_a_second_run_touches_nothing_and_a_change_reloads(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    changing = ("start", "restart", "reload", "try-reload-or-restart", "enable")
    assert not [line for line in machine.called("systemctl") if line.split()[1] in changing]
    machine.node_env({**GATEWAY, "METRICS": "true"})
    machine.run("gateway/gateway.sh", "configure")
    assert machine.called("systemctl reload") == ["systemctl reload -- haproxy.service"]
    assert not machine.called("restart")


def test_new_sysctls_reach_a_gateway_that_runs(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    sysctls = "etc/sysctl.d/91-openstack-kubernetes-gateway.conf"
    assert "net.ipv4.tcp_syn_retries = 2\n" in machine.read(sysctls)
    machine.place("proc/sys/net/ipv4/ip_nonlocal_bind", "1")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    assert not machine.called("sysctl -q")
    machine.place(sysctls, "net.ipv4.ip_nonlocal_bind = 1\n")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    assert machine.called("sysctl -q -p")


def test_a_unit_that_is_down_is_started(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.answer("^systemctl is-(active|enabled)", status=3)
    machine.run("gateway/gateway.sh", "configure")
    for unit in ("haproxy", "keepalived"):
        assert machine.called(f"systemctl --quiet --no-reload enable -- {unit}.service")
        assert machine.called(f"systemctl start -- {unit}.service")


def test_a_bad_configuration_is_not_put_in_place(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    before = machine.read(HAPROXY)
    machine.node_env({**GATEWAY, "METRICS": "true"})
    machine.answer("^haproxy -c", status=1, complains="parsing [x:1] : nonsense")
    result = machine.run("gateway/gateway.sh", "configure")
    assert result.status == 1
    assert "HAProxy refuses its configuration: parsing [x:1] : nonsense" in result.log
    assert machine.read(HAPROXY) == before


def test_an_address_that_is_not_a_gateways_is_named(gateway: Callable[..., Machine]) -> None:
    result = gateway(GATEWAY_ADDRESSES="10.8.0.11").run("gateway/gateway.sh", "configure")
    assert "NODE_IP 10.8.0.12 is not one of GATEWAY_ADDRESSES (10.8.0.11)" in result.log


def test_first_boot_needs_no_more_than_user_data_brings(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    for path in machine.folder.iterdir():
        if path.is_dir() and path.name not in {"lib", "gateway"}:
            shutil.rmtree(path)
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    assert not machine.called("fake-install")


def test_over_ssh_it_waits_for_the_first_boot_whose_scripts_would_replace_these(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway()
    machine.place("run/cloud-init/enabled")
    machine.environment["BOOT_TIMEOUT"] = "1"
    assert "cloud-init has not ended" in machine.run("gateway/gateway.sh", "configure").log
    machine.place("run/cloud-init/result.json")
    assert "cloud-init" not in machine.run("gateway/gateway.sh", "configure").log
    # The run that cloud-init waits for.
    (machine.root / "run/cloud-init/result.json").unlink()
    shutil.rmtree(machine.folder / "install")
    assert "cloud-init" not in machine.run("gateway/gateway.sh", "configure").log


def test_over_ssh_it_ends_a_first_boot_that_is_tried_again(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    unit = "openstack-kubernetes-first-boot.service"
    machine.place(f"etc/systemd/system/{unit}").unlink()
    (machine.root / f"etc/systemd/system/{unit}").symlink_to("/boot-folder/unit")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    machine.order(f"systemctl --quiet disable --now -- {unit}", "haproxy -c")
    # It may have disabled itself a moment ago, which is good; at work, it must not go on.
    machine.answer("^systemctl --quiet disable", status=1)
    machine.answer("^systemctl is-active", prints="inactive\n")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    machine.answer("^systemctl is-active", prints="activating\n")
    assert "cannot be stopped" in machine.run("gateway/gateway.sh", "configure").log
    # That of the first boot itself ends with its unit's help.
    shutil.rmtree(machine.folder / "install")
    assert machine.run("gateway/gateway.sh", "configure").status == 0
    assert not machine.called("disable --now")


def test_the_active_gateways_address_is_not_punished_where_sshd_can_punish(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    config = "etc/ssh/sshd_config.d/10-openstack-kubernetes.conf"
    exempt = "PerSourcePenaltyExemptList 10.8.0.11,10.8.0.12,10.8.0.13,10.8.0.14,10.8.0.10\n"
    assert machine.read(config).endswith(exempt)
    machine.answer("^sshd -t -o", status=1)
    machine.run("gateway/gateway.sh", "configure")
    assert "PerSource" not in machine.read(config)


def test_keepalived_and_haproxy_start_again_however_often_they_end(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    for unit, restart in (("keepalived", "Restart=always\n"), ("haproxy", "RestartSec=1s")):
        name = f"etc/systemd/system/{unit}.service.d/openstack-kubernetes.conf"
        drop_in = machine.read(name)
        assert "StartLimitIntervalSec=0\n" in drop_in
        assert restart in drop_in


def test_kubectl_is_installed_over_ssh(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    assert machine.called("fake-install kubectl")


@pytest.mark.skipif(
    not shutil.which("haproxy", path="/usr/sbin:/usr/bin"), reason="HAProxy is not installed"
)
@pytest.mark.parametrize("switch", ["true", "false"])
def test_haproxy_itself_takes_the_configuration(
    gateway: Callable[..., Machine], tmp_path: Path, switch: str
) -> None:
    store = {"OBJECT_STORE_PORT": "7070", "OBJECT_STORE_NODE_PORT": "30070"}
    machine = gateway(
        INGRESS_PROXY_PROTOCOL=switch, METRICS=switch, **(store if switch == "true" else {})
    )
    certificate = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", tmp_path / "key", "-subj", "/CN=test", "-days", "1"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    machine.write("ca.crt", certificate)
    machine.run("gateway/gateway.sh", "configure")
    # The machine that runs the tests may have no user haproxy.
    config = re.sub(r"\n  (user|group) haproxy", "", machine.read(HAPROXY))
    config = re.sub(r"stats socket \S+", "stats socket /run/haproxy.sock", config)
    (tmp_path / "haproxy.cfg").write_text(config)
    done = subprocess.run(
        [shutil.which("haproxy", path="/usr/sbin:/usr/bin") or "", "-c", "-f", "haproxy.cfg"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


INTERFACES = [name for _, name in socket.if_nameindex() if name != "lo"]


@pytest.mark.skipif(
    not shutil.which("keepalived", path="/usr/sbin:/usr/bin") or not INTERFACES,
    reason="keepalived is not installed, or there is no network interface",
)
def test_keepalived_itself_takes_the_configuration(
    gateway: Callable[..., Machine], tmp_path: Path
) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    # An interface that is there, and a script that root alone may write, which no test's can be.
    config = machine.read(KEEPALIVED).replace("eth7", INTERFACES[0])
    config = re.sub(r'script ".*"', 'script "/bin/true"', config)
    (tmp_path / "keepalived.conf").write_text(config)
    done = subprocess.run(
        [shutil.which("keepalived", path="/usr/sbin:/usr/bin") or "", "--config-test",
         "--use-file", tmp_path / "keepalived.conf"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0 or (done.returncode == -signal.SIGTERM and not said), said


class Health(Silent):
    """HAProxy's own answer to whether it is healthy."""

    status: ClassVar[int]

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(self.status if self.path == "/healthz" else 404)
        self.end_headers()


@pytest.fixture
def is_healthy(gateway: Callable[..., Machine]) -> Callable[[int], bool]:
    """What keepalived's script says of a HAProxy at this port."""

    def ask(port: int) -> bool:
        machine = gateway(HAPROXY_HEALTH_PORT=str(port))
        machine.run("gateway/gateway.sh", "configure")
        script = machine.root / "usr/local/lib/openstack-kubernetes/haproxy-health.sh"
        assert script.stat().st_mode & 0o777 == 0o755
        done = subprocess.run([script], capture_output=True, timeout=10, check=False)
        return done.returncode == 0

    return ask


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_a_gateway_is_healthy_if_haproxy_says_so(
    is_healthy: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch, status: int, healthy: bool
) -> None:
    monkeypatch.setattr(Health, "status", status, raising=False)
    with served(Health) as url:
        port = int(url.rpartition(":")[2])
        assert is_healthy(port) is healthy
    # It has ended.
    assert not is_healthy(port)


def test_a_gateway_whose_haproxy_hangs_is_not_healthy(is_healthy: Callable[[int], bool]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_healthy(server.getsockname()[1])


@pytest.mark.parametrize(
    ("status", "complaint", "accepted"),
    # 2.2 ends itself by SIGTERM after testing a file with a script in it.
    [(143, "", True), (143, "(Line 3) Unknown keyword", False), (1, "(Line 3) nonsense", False)],
)
def test_a_configuration_that_keepalived_refuses_is_not_put_in_place(
    gateway: Callable[..., Machine], status: int, complaint: str, accepted: bool
) -> None:
    machine = gateway()
    machine.run("gateway/gateway.sh", "configure")
    before = machine.read(KEEPALIVED)
    machine.node_env({**GATEWAY, "VRRP_ID": "12"})
    machine.answer("^keepalived --config-test", status=status, complains=complaint)
    result = machine.run("gateway/gateway.sh", "configure")
    assert (result.status == 0) is accepted
    assert (machine.read(KEEPALIVED) != before) is accepted
    assert accepted or f"keepalived refuses its configuration (status {status}): {complaint}" in (
        result.log
    )
