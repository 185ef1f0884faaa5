"""install.sh: what it writes, installs and restarts, and what it leaves alone."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from addons.monitoring.alerts import UPDATES_METRIC
from tests.scripts.conftest import COMMON, USERDATA, Machine, Result

VERSION = COMMON["KUBERNETES_VERSION"]
NODE = {**COMMON, "ROLE": "worker", "NODE_NAME": "demo-worker-0", "NODE_IP": "10.8.0.31"}

# dpkg knows every package that it is asked for.
ALL_INSTALLED = 'print("\\n".join(f"installed {name}" for name in sys.argv[4:]))'


def as_installed(machine: Machine, version: str = VERSION) -> None:
    """Programs and packages of the machine are there."""
    machine.answer("^kubeadm version", f"{version}\n")
    machine.answer("^kubelet --version", f"Kubernetes {version}\n")
    machine.answer("^kubectl version --client", f"Client Version: {version}\n")
    machine.answer("^containerd --version", "containerd github.com/containerd v2.1.4 abc\n")
    machine.answer("^dpkg-query", does=ALL_INSTALLED)
    for program in ("kubeadm", "kubelet", "kubectl"):
        machine.place(f"usr/bin/{program}").chmod(0o755)
    machine.place("opt/cni/bin/loopback")


@pytest.fixture
def node(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A machine on which all programs are installed already."""

    def make(**values: str) -> Machine:
        machine = make_machine({**NODE, **values})
        shutil.copytree(USERDATA / "install", machine.folder / "install", dirs_exist_ok=True)
        machine.place("proc/sys/net/ipv4/ip_forward", "0\n")
        machine.place("sys/fs/cgroup/file")
        machine.place("etc/os-release", "ID=debian\nVERSION_CODENAME=trixie\n")
        machine.answer("^kubeadm config images list", "r.k8s.io/etcd:3\nr.k8s.io/pause:3.10\n")
        as_installed(machine)
        return machine

    return make


def install(machine: Machine, verb: str = "all") -> Result:
    result = machine.run("install/install.sh", verb)
    assert result.status == 0, result
    return result


TIMESYNCD = "etc/systemd/timesyncd.conf.d/openstack-kubernetes.conf"
CHRONY = "etc/chrony/sources.d/openstack-kubernetes.sources"


@pytest.mark.parametrize("verb", ["all", "kubectl"])
def test_time_servers_of_the_configuration_replace_those_of_the_image(
    node: Callable[..., Machine], verb: str
) -> None:
    machine = node(TIME_SERVERS="ntp.example.org 192.0.2.1")
    install(machine, verb)
    assert machine.read(TIMESYNCD) == "[Time]\nNTP=ntp.example.org 192.0.2.1\n"
    assert machine.called("restart -- systemd-timesyncd.service")
    install(machine, verb)
    assert not machine.called("restart -- systemd-timesyncd.service")
    machine.node_env(NODE)
    install(machine, verb)
    assert not machine.has(TIMESYNCD)
    assert machine.called("restart -- systemd-timesyncd.service")


def test_time_servers_are_chronys_where_it_is_installed(node: Callable[..., Machine]) -> None:
    machine = node(TIME_SERVERS="ntp.example.org 192.0.2.1")
    machine.place("usr/sbin/chronyd")
    install(machine)
    lines = ["server ntp.example.org iburst prefer", "server 192.0.2.1 iburst prefer"]
    assert machine.read(CHRONY).splitlines() == lines
    assert machine.called("restart -- chrony.service")
    assert not machine.called("timesyncd")


def test_without_time_servers_those_of_the_image_stay(node: Callable[..., Machine]) -> None:
    machine = node()
    install(machine)
    assert not machine.called("timesyncd")


def test_the_neighbour_table_holds_500_nodes(node: Callable[..., Machine]) -> None:
    machine = node()
    install(machine)
    sysctls = machine.read("etc/sysctl.d/80-openstack-kubernetes.conf")
    limits = re.findall(r"neigh\.default\.gc_thresh\d = (\d+)", sysctls)
    assert [int(limit) for limit in limits] == sorted(int(limit) for limit in limits)
    assert int(limits[0]) > 5000


@pytest.mark.parametrize("version", ["", "1.36.3", "v1.36", "latest", "v1.36.3; reboot"])
def test_it_says_how_a_version_looks(node: Callable[..., Machine], version: str) -> None:
    result = node(KUBERNETES_VERSION=version).run("install/install.sh", "all")
    assert result.status == 1
    assert f"KUBERNETES_VERSION is '{version}'; it must look like v1.36.3" in result.log


def test_without_node_env_the_settings_are_those_of_the_environment(
    node: Callable[..., Machine],
) -> None:
    machine = node()
    (machine.folder / "node.env").unlink()
    machine.environment["KUBERNETES_VERSION"] = "nonsense"
    assert "'nonsense'" in machine.run("install/install.sh", "all").log
    machine.environment["KUBERNETES_VERSION"] = VERSION
    install(machine)


def test_a_node_gets_all_it_needs(node: Callable[..., Machine]) -> None:
    machine = node()
    install(machine)
    config = machine.read("etc/containerd/config.toml")
    assert 'sandbox = "r.k8s.io/pause:3.10"' in config
    assert "SystemdCgroup = false" in config
    assert "containerd.sock" in machine.read("etc/crictl.yaml")
    assert "net.ipv4.ip_forward = 1" in machine.read("etc/sysctl.d/80-openstack-kubernetes.conf")
    assert machine.read("proc/sys/net/ipv4/ip_forward") == "1\n"
    assert machine.called("modprobe -q br_netfilter")
    masked = machine.root / "etc/systemd/system/apt-daily.timer"
    assert masked.readlink() == Path("/dev/null")
    drop_in = machine.read("etc/systemd/system/kubelet.service.d/10-kubeadm.conf")
    # What kubeadm and the kubelet themselves call it.
    assert "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf" in drop_in
    for unit in ("containerd", "openstack-kubernetes-metadata"):
        assert machine.called(f"systemctl restart -- {unit}.service")
    # It starts when the node joins.
    assert not machine.called("start kubelet")


def test_a_second_run_changes_nothing(node: Callable[..., Machine]) -> None:
    machine = node(SECURITY_UPDATES="true")
    machine.write("containerd/gpu.toml", "version = 3\n")
    machine.write("proxy.env", "HTTP_PROXY=http://proxy:3128\n")
    install(machine)
    before = {path: path.stat().st_ino for path in machine.root.rglob("*")}
    result = install(machine)
    assert {path: path.stat().st_ino for path in machine.root.rglob("*")} == before
    assert "wrote" not in result.log
    asking = ("is-enabled", "is-active")
    assert {line.split()[1] for line in machine.called("systemctl")} <= set(asking)
    assert not machine.called("apt-get")


def test_in_a_chroot_units_are_enabled_and_never_started(node: Callable[..., Machine]) -> None:
    machine = node(SECURITY_UPDATES="true")
    (machine.root / "run/systemd/system").rmdir()
    machine.answer("^systemctl is-enabled", status=1)
    install(machine)
    asked = machine.called("systemctl")
    assert {line.split()[1] for line in asked} == {"is-enabled", "--quiet"}
    assert [line.split()[-1] for line in asked if "--no-reload enable" in line] == [
        "openstack-kubernetes-metadata.service",
        "containerd.service",
        "kubelet.service",
        "openstack-kubernetes-updates.timer",
    ]
    assert not machine.called("modprobe")
    assert not machine.called("sysctl")


def test_packages_that_are_missing_are_installed(node: Callable[..., Machine]) -> None:
    machine = node()
    machine.answer("^dpkg-query", does=f"sys.argv.remove('conntrack')\n{ALL_INSTALLED}")
    install(machine)
    (asked,) = machine.called("apt-get")[1:]
    assert asked.endswith("install --no-install-recommends conntrack")


def test_the_pause_image_comes_from_where_kubeadms_others_do(node: Callable[..., Machine]) -> None:
    machine = node(IMAGE_REGISTRY="r.example:5000/m")
    machine.answer("--image-repository r.example:5000/m", "r.example:5000/m/pause:3.10\n")
    install(machine)
    assert 'sandbox = "r.example:5000/m/pause:3.10"' in machine.read("etc/containerd/config.toml")


class TestPrograms:
    SOURCES = "etc/apt/sources.list.d/openstack-kubernetes-kubernetes.list"

    def test_they_come_from_the_artifacts_first(self, node: Callable[..., Machine]) -> None:
        machine = node()
        as_installed(machine, "v1.36.2")
        machine.answer("^curl", does="open(sys.argv[sys.argv.index('-o') + 1], 'w').write('key')")
        sources = machine.root / self.SOURCES
        machine.answer("^apt-get .* update", does=f"print(open({str(sources)!r}).read())")
        for program in ("kubeadm", "kubelet"):
            path = f"opt/openstack-kubernetes/artifacts/{VERSION}/{program}"
            machine.place(path, "new").chmod(0o755)
        said = install(machine)
        assert machine.read("usr/bin/kubelet") == "new"
        assert "core:/stable:/v1.36/deb" in said.log
        # With an expired key, apt could not read the lists of others.
        assert not sources.exists()
        machine.order("Release.key", "kubectl=1.36.3-*", "apt-mark hold kubectl")
        assert not machine.called("kubelet=")

    @pytest.mark.parametrize("verb", ["all", "updates"])
    def test_sources_of_a_killed_run_and_of_0_1_0_are_removed_and_no_others(
        self, node: Callable[..., Machine], verb: str
    ) -> None:
        machine = node()
        machine.place(self.SOURCES)
        folder = "etc/apt/sources.list.d"
        key = f"{machine.root}/etc/apt/keyrings/docker.asc"
        machine.place(f"{folder}/docker.list", f"deb [signed-by={key}] https://a trixie stable\n")
        theirs = f"deb [arch=amd64 signed-by={key}] https://a trixie stable\n"
        machine.place(f"{folder}/kubernetes.list", theirs)
        install(machine, verb)
        assert [path.name for path in (machine.root / folder).iterdir()] == ["kubernetes.list"]

    def test_sources_are_gone_also_when_nothing_can_be_installed(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        as_installed(machine, "v1.36.2")
        machine.answer("^curl", does=self.DOWNLOADED)
        machine.answer("^apt-get .* install .*kubelet", status=100)
        assert machine.run("install/install.sh", "all").status == 1
        assert machine.called("kubelet=1.36.3-*")
        assert not machine.has(self.SOURCES)

    def test_updates_at_night_leave_the_sources_of_a_run_alone(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        machine.environment["LOCK_TIMEOUT"] = "0"
        machine.place(self.SOURCES)
        with machine.place("run/openstack-kubernetes/lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert machine.run("install/install.sh", "updates").status == 1
        assert machine.has(self.SOURCES)

    def test_a_kubelet_that_was_replaced_is_restarted_by_whichever_run_gets_there(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        install(machine)
        machine.place("var/lib/kubelet/config.yaml")
        machine.answer("^kubelet --version", "Kubernetes v1.36.2\n", times=1)
        machine.answer("^nft", does="import signal; os.kill(os.getppid(), signal.SIGKILL)")
        assert machine.run("install/install.sh", "all").status != 0
        assert not machine.called("restart kubelet")
        machine.answer("^nft")
        machine.answer("^kubelet --version", f"Kubernetes {VERSION}\n")
        install(machine)
        assert machine.called("systemctl restart kubelet.service")
        install(machine)
        assert not machine.called("restart")

    @pytest.mark.parametrize("folder", ["etc", "usr/lib"])
    def test_only_root_reads_the_kubelets_unit(
        self, node: Callable[..., Machine], folder: str
    ) -> None:
        machine = node()
        units = [
            f"{folder}/systemd/system/kubelet.service{part}" for part in ("", ".d/10-kubeadm.conf")
        ]
        for unit in units:
            machine.place(unit).chmod(0o644)
        install(machine)
        assert {(machine.root / unit).stat().st_mode & 0o777 for unit in units} == {0o600}

    KEY = "etc/apt/keyrings/kubernetes.asc"
    DOWNLOADED = "open(sys.argv[sys.argv.index('-o') + 1], 'w').write('new key')"

    def test_a_key_is_as_new_as_what_it_verifies(self, node: Callable[..., Machine]) -> None:
        machine = node()
        machine.place(self.KEY, "expired key")
        as_installed(machine, "v1.36.2")
        machine.answer("^curl", does=self.DOWNLOADED)
        install(machine)
        assert machine.read(self.KEY) == "new key"
        machine.order("Release.key", "apt-get", "install --no-install-recommends")
        as_installed(machine)
        install(machine)
        assert not machine.called("Release.key")

    def test_without_a_new_key_the_last_one_is_tried(self, node: Callable[..., Machine]) -> None:
        machine = node()
        machine.place(self.KEY, "old key")
        as_installed(machine, "v1.36.2")
        machine.answer("^curl", does=self.DOWNLOADED, status=28)
        install(machine)
        assert machine.read(self.KEY) == "old key"
        assert machine.called("kubelet=1.36.3-*")

    def test_a_key_that_cannot_be_downloaded_is_named(self, node: Callable[..., Machine]) -> None:
        machine = node()
        as_installed(machine, "v1.36.2")
        machine.answer("^curl", status=6)
        result = machine.run("install/install.sh", "all")
        assert result.status == 1
        assert "cannot download the signing key https://pkgs.k8s.io" in result.log


class TestSettings:
    GPU = "etc/containerd/conf.d/gpu.toml"
    MIRROR = "etc/containerd/certs.d/docker.io/hosts.toml"
    PROXY = "etc/default/openstack-kubernetes-proxy"

    @staticmethod
    def bring(machine: Machine, *names: str) -> None:
        """A folder with these settings."""
        shutil.rmtree(machine.folder / "containerd", ignore_errors=True)
        (machine.folder / "proxy.env").unlink(missing_ok=True)
        for name in names:
            machine.write(name, f"# {name}\n")

    def test_they_leave_the_machine_when_they_are_taken_away(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        machine.place("etc/containerd/conf.d/image.toml", "# baked\n")
        names = ("containerd/gpu.toml", "containerd/certs.d/docker.io/hosts.toml", "proxy.env")
        self.bring(machine, *names)
        install(machine)
        for place in (self.GPU, self.MIRROR, self.PROXY):
            assert machine.has(place)
            assert (machine.root / place).stat().st_mode & 0o777 == 0o600
        for unit in ("containerd", "kubelet"):
            drop_in = machine.read(f"etc/systemd/system/{unit}.service.d/50-proxy.conf")
            assert f"EnvironmentFile=-{machine.root / self.PROXY}\n" in drop_in
        self.bring(machine)
        install(machine)
        assert machine.called("systemctl restart") == ["systemctl restart -- containerd.service"]
        assert not any(machine.has(place) for place in (self.GPU, self.MIRROR, self.PROXY))
        assert machine.has("etc/containerd/conf.d/image.toml")
        install(machine)
        assert not machine.called("restart")

    def test_an_upgrade_pulls_by_new_mirrors(self, node: Callable[..., Machine]) -> None:
        machine = node()
        install(machine)
        self.bring(machine, "containerd/certs.d/docker.io/hosts.toml", "proxy.env")
        install(machine, "kubeadm")
        assert machine.has(self.MIRROR)
        assert machine.called("systemctl restart") == ["systemctl restart -- containerd.service"]

    def test_mirrors_need_no_restart(self, node: Callable[..., Machine]) -> None:
        machine = node()
        install(machine)
        self.bring(machine, "containerd/certs.d/docker.io/hosts.toml")
        install(machine)
        assert machine.has(self.MIRROR)
        assert not machine.called("restart")

    def test_another_proxy_reaches_containerd_and_the_kubelet(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        machine.place("var/lib/kubelet/config.yaml")
        self.bring(machine, "proxy.env")
        install(machine)
        machine.write("proxy.env", "# another\n")
        install(machine)
        assert machine.called("systemctl restart") == [
            "systemctl restart -- containerd.service",
            "systemctl restart kubelet.service",
        ]

    @pytest.mark.parametrize("names", [["containerd/gpu.toml"], []])
    def test_an_interrupted_run_leaves_the_restart_to_the_next(
        self, node: Callable[..., Machine], names: list[str]
    ) -> None:
        machine = node()
        self.bring(machine, "containerd/old.toml")
        install(machine)
        self.bring(machine, *names)
        restart = "^systemctl restart -- containerd"
        machine.answer(restart, does="import signal; os.kill(os.getppid(), signal.SIGKILL)")
        assert machine.run("install/install.sh", "all").status != 0
        machine.answer(restart)
        install(machine)
        assert machine.called("systemctl restart -- containerd")
        assert not machine.has("etc/containerd/conf.d/old.toml")
        assert machine.has(self.GPU) is bool(names)
        install(machine)
        assert not machine.called("restart")

    def test_an_installed_script_finds_them(self, node: Callable[..., Machine]) -> None:
        machine = node()
        self.bring(machine, "containerd/gpu.toml", "proxy.env")
        install(machine)
        machine.lib("install_scripts")
        script = machine.root / "usr/local/lib/openstack-kubernetes/current/install/install.sh"
        result = machine.bash(["bash", str(script), "all"], "")
        assert result.status == 0
        assert machine.has(self.GPU)
        assert machine.has(self.PROXY)
        assert not machine.called("restart")


GATEWAY = {**NODE, "ROLE": "gateway", "NODE_IP": "10.8.0.12", "NODE_EXPORTER_PORT": "19100"}


class TestExporter:
    FILE = "etc/default/prometheus-node-exporter"
    UNIT = "prometheus-node-exporter.service"

    def test_a_gateway_tells_its_metrics(self, node: Callable[..., Machine]) -> None:
        machine = node(**GATEWAY, METRICS="true")
        install(machine, "kubectl")
        assert machine.called(f"systemctl restart -- {self.UNIT}")
        arguments = machine.read(self.FILE)
        assert "--web.listen-address=10.8.0.12:19100 " in arguments
        assert "--collector.netdev.address-info" in arguments
        assert "/var/lib/openstack-kubernetes/metrics" in arguments
        install(machine, "kubectl")
        assert not machine.called("systemctl restart")

    def test_it_stops_when_no_one_asks_any_more(self, node: Callable[..., Machine]) -> None:
        machine = node(**GATEWAY, METRICS="true")
        install(machine, "kubectl")
        machine.node_env(GATEWAY)
        install(machine, "kubectl")
        assert machine.called(f"systemctl --quiet disable --now -- {self.UNIT}")

    def test_nothing_is_touched_where_no_one_ever_asked(self, node: Callable[..., Machine]) -> None:
        machine = node(**GATEWAY)
        install(machine, "kubectl")
        assert not machine.called(self.UNIT)


class TestUpdates:
    TIMER = "etc/systemd/system/openstack-kubernetes-updates.timer"
    UNIT = "openstack-kubernetes-updates.timer"
    LOCK = "run/openstack-kubernetes/lock"
    METRICS = "var/lib/openstack-kubernetes/metrics/security-updates.prom"

    def test_a_node_takes_its_turn_at_night(self, node: Callable[..., Machine]) -> None:
        machine = node(SECURITY_UPDATES="true")
        install(machine)
        assert "OnCalendar=*-*-* 00:00:00 UTC\nRandomizedDelaySec=4h\n" in machine.read(self.TIMER)
        service = machine.read(self.TIMER.replace("timer", "service"))
        script = re.search(r"ExecStart=/bin/bash (\S+) updates", service)
        assert script is not None
        machine.lib("install_scripts")
        assert Path(script.group(1)).is_file()
        config = machine.read("etc/apt/apt.conf.d/52openstack-kubernetes")
        assert 'Automatic-Reboot "false"' in config
        assert "label=Debian-Security" in config
        # From here on, an alert counts the time without updates.
        assert UPDATES_METRIC in machine.read(self.METRICS)
        (machine.root / self.METRICS).write_text("since then")
        install(machine)
        assert machine.read(self.METRICS) == "since then"

    def test_an_image_does_not_tell_when_it_was_updated(self, node: Callable[..., Machine]) -> None:
        machine = node()
        (machine.folder / "node.env").unlink()
        machine.environment |= {**COMMON, "SECURITY_UPDATES": "true"}
        install(machine, "kubectl")
        assert machine.has(self.TIMER)
        assert not machine.has(self.METRICS)

    def test_no_two_gateways_update_in_the_same_hour(self, node: Callable[..., Machine]) -> None:
        addresses = "10.8.0.11 10.8.0.12"
        gateway = {"ROLE": "gateway", "NODE_IP": "10.8.0.12", "GATEWAY_ADDRESSES": addresses}
        machine = node(SECURITY_UPDATES="true", **gateway)
        install(machine, "kubectl")
        assert "OnCalendar=*-*-* 01:00:00 UTC\nRandomizedDelaySec=30m\n" in machine.read(self.TIMER)

    @pytest.mark.parametrize("value", ["", "false"])
    def test_it_is_taken_away_where_it_is_not_wanted(
        self, node: Callable[..., Machine], value: str
    ) -> None:
        machine = node(SECURITY_UPDATES="true")
        install(machine)
        machine.node_env({**NODE, "SECURITY_UPDATES": value})
        install(machine)
        assert machine.called(f"systemctl --quiet disable --now -- {self.UNIT}")
        assert not machine.has(self.TIMER)
        assert not machine.has(self.METRICS)
        install(machine)
        assert not machine.called(self.UNIT)

    def test_the_updates_are_those_of_unattended_upgrade(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        install(machine, "updates")
        machine.order("apt-get --quiet --yes", "unattended-upgrade --verbose")
        ended = re.search(rf"^{UPDATES_METRIC} (\d+)$", machine.read(self.METRICS), re.MULTILINE)
        assert ended is not None
        assert time.time() - int(ended[1]) < 60
        (machine.root / self.METRICS).unlink()
        machine.answer("^unattended-upgrade", status=1)
        assert "unattended-upgrade failed" in machine.run("install/install.sh", "updates").log
        assert not machine.has(self.METRICS)

    def test_a_source_that_is_gone_keeps_no_other_update_from_being_installed(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        machine.environment["APT_TIMEOUT"] = "0"
        machine.answer("^apt-get .* update", status=100)
        result = machine.run("install/install.sh", "updates")
        assert machine.called("unattended-upgrade --verbose")
        assert result.status == 1
        assert "some package lists could not be read" in result.log
        assert not machine.has(self.METRICS)

    def test_they_do_not_read_apts_lists_during_another_run(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        machine.environment["LOCK_TIMEOUT"] = "0"
        with machine.place(self.LOCK).open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            result = machine.run("install/install.sh", "updates")
        assert result.status == 1
        assert "another run" in result.log
        assert not machine.called("apt-get")
        assert not machine.called("unattended-upgrade")

    def test_another_run_does_not_wait_for_the_updates_themselves(
        self, node: Callable[..., Machine]
    ) -> None:
        machine = node()
        lock = f"open({str(machine.root / self.LOCK)!r}), fcntl.LOCK_EX | fcntl.LOCK_NB"
        machine.answer("^unattended-upgrade", does=f"import fcntl; fcntl.flock({lock})")
        install(machine, "updates")

    def test_while_they_run_a_reboot_finds_their_lock(self, node: Callable[..., Machine]) -> None:
        machine = node()
        lock = machine.root / "run/lock/openstack-kubernetes-updates"
        asked = f"flock --nonblock {lock} true"
        machine.answer(
            "^unattended-upgrade",
            does=f"import subprocess\nsys.exit(not subprocess.run({asked.split()}).returncode)",
        )
        install(machine, "updates")
        assert subprocess.run(asked.split(), check=False).returncode == 0

    @pytest.mark.skipif(not shutil.which("apt-config"), reason="no apt here")
    def test_apt_itself_takes_the_configuration(self, tmp_path: Path) -> None:
        before = 'Unattended-Upgrade::Origins-Pattern { "origin=Debian,label=Debian"; };\n'
        ours = (USERDATA / "install/files/52openstack-kubernetes").read_text()
        (tmp_path / "apt.conf").write_text(before + ours)
        said = subprocess.run(
            ["apt-config", "dump"], env={**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf")},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert 'Origins-Pattern:: "origin=Debian,label=Debian";' not in said
        assert "label=Debian-Security" in said
        # unattended-upgrades holds back a package with a changed file of its own without this.
        assert ':: "--force-confold";' in said


# A machine and a pod as two network namespaces; the machine itself is the metadata service.
MACHINE_AND_POD = """
set -e
ip link set lo up
ip address add 169.254.169.254/32 dev lo
unshare --net sleep 60 & pod=$!
trap 'kill $pod' EXIT
while [ "$(readlink /proc/$pod/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do :; done
in_pod() { nsenter --target $pod --net "$@"; }
ip link add veth type veth peer name eth0 netns $pod
ip address add 10.0.0.1/24 dev veth && ip link set veth up
in_pod ip address add 10.0.0.2/24 dev eth0 && in_pod ip link set eth0 up
in_pod ip route add default via 10.0.0.1
python3 -m http.server 80 >/dev/null 2>&1 & trap "kill $pod $!" EXIT
answers() {
  if "${@:2}" curl -s --noproxy '*' --max-time 2 -o /dev/null "http://$1/"; then
    echo yes
  else
    echo no
  fi
}
until [ "$(answers 127.0.0.1 env)" = yes ]; do sleep 0.1; done
"""


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("nft") is None, reason="needs root and nft")
def test_pods_do_not_reach_the_metadata_service_but_their_machine_does(tmp_path: Path) -> None:
    rules = USERDATA / "install/files/metadata.nft"
    questions = f"""
        answers 169.254.169.254 in_pod
        nft -f {rules} && nft -f {rules}
        answers 169.254.169.254 in_pod
        answers 169.254.169.254 env
        answers 10.0.0.1 in_pod
    """
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", MACHINE_AND_POD + questions],
        capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.split() == ["yes", "no", "yes", "yes"], done.stderr


def test_the_rules_of_the_metadata_service_are_loaded_again_when_they_are_gone(
    node: Callable[..., Machine],
) -> None:
    machine = node()
    install(machine)
    machine.answer("^nft list table", status=1)
    install(machine)
    assert machine.called("systemctl restart") == [
        "systemctl restart openstack-kubernetes-metadata.service"
    ]


def test_updates_do_not_wait_for_ever_for_what_an_ended_run_has_left(
    node: Callable[..., Machine],
) -> None:
    machine = node(UPDATES_TIMEOUT="1")
    with machine.place("run/lock/openstack-kubernetes-updates").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        command = ["timeout", "--kill-after=1", "15", "bash", "./install/install.sh", "updates"]
        assert machine.bash(command, "").status == 1


def test_apts_timers_end_also_after_a_run_that_was_killed_while_it_masked_them(
    node: Callable[..., Machine],
) -> None:
    machine = node()
    stop = "systemctl stop apt-daily-upgrade.timer"
    machine.answer(f"^{stop}", does="os.kill(os.getppid(), 9)")
    assert machine.run("install/install.sh", "all").status == -9
    machine.answer(f"^{stop}")
    assert machine.run("install/install.sh", "all").status == 0
    assert machine.called(stop)
