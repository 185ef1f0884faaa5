"""install.sh: what it refuses, how it writes files, what it says when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

USERDATA = Path(__file__).resolve().parents[2] / "userdata"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="install.sh asks for root first")


def run(*words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script in a folder of its own, so that no node.env is beside it."""
    script = folder / "install/install.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_bytes((USERDATA / "install/install.sh").read_bytes())
    return subprocess.run(
        ["bash", script, *words],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("version", ["", "1.36.3", "v1.36", "latest", "v1.36.3; reboot"])
def test_it_says_how_a_version_looks(tmp_path: Path, version: str) -> None:
    result = run("all", folder=tmp_path, KUBERNETES_VERSION=version)
    assert result.returncode == 1
    assert f"KUBERNETES_VERSION is '{version}'; it must look like v1.36.3" in result.stderr


def test_the_environment_wins_over_node_env(tmp_path: Path) -> None:
    (tmp_path / "node.env").write_text("KUBERNETES_VERSION='v1.35.4'\n")
    result = run("all", folder=tmp_path, KUBERNETES_VERSION="nonsense")
    assert "'nonsense'" in result.stderr


def functions(folder: Path, lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines with the script's functions defined and its main program left out."""
    text = (USERDATA / "install/install.sh").read_text()
    head, _, tail = text.rpartition('main "$@"')
    assert not tail.strip()
    script = folder / "install/functions.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"{head}\n{lines}\n")
    return subprocess.run(["bash", script], capture_output=True, text=True, check=False)


def test_the_pause_image_comes_from_where_kubeadms_others_do(tmp_path: Path) -> None:
    lines = """
        version=v1.36.3
        kubeadm() {
          local registry=registry.k8s.io
          [ "${6:-}" = "" ] || { [ "$6" = --image-repository ] && registry=$7; }
          printf '%s\\n' "${registry}/etcd:3" "${registry}/pause:3.10"
        }
        sandbox_image
        IMAGE_REGISTRY=r.example:5000/m sandbox_image
        """
    result = functions(tmp_path, lines)
    assert result.stdout.split() == ["registry.k8s.io/pause:3.10", "r.example:5000/m/pause:3.10"]


def test_put_writes_only_what_differs(tmp_path: Path) -> None:
    result = functions(
        tmp_path,
        f"""
        put {tmp_path}/new/file <<<one && echo first
        put {tmp_path}/new/file <<<one || echo same
        put {tmp_path}/new/file <<<two && echo second
        """,
    )
    assert result.stdout.split() == ["first", "same", "second"]
    assert (tmp_path / "new/file").read_text() == "two\n"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["file"]


def test_put_keeps_empty_lines_at_the_end(tmp_path: Path) -> None:
    functions(tmp_path, f"printf 'a\\n\\n' | put {tmp_path}/file")
    assert (tmp_path / "file").read_text() == "a\n\n"


def brought(base: Path, *files: str, then: str = "true") -> subprocess.CompletedProcess[str]:
    """Take over a folder with these files, on a machine that lies below `base`."""
    folder = base / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("node.env", *files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    return functions(
        base,
        f"""
        here={folder} settings={base}/settings state={base}/state containerd={base}/containerd
        KUBERNETES_VERSION=v1.36.3
        stat() {{ echo cgroup2fs; }}; sandbox_image() {{ echo pause; }}; running() {{ true; }}
        enable() {{ true; }}; systemctl() {{ [ "$*" = "-q is-active containerd" ] || echo "$*"; }}
        # Nothing is written on the real machine.
        eval "real_$(declare -f put)"
        put() {{ [[ $1 == {base}/* ]] && real_put "$1"; }}
        drop_old_files
        load_settings
        {then}
        configure_containerd
        """,
    )


def test_settings_that_are_taken_away_leave_the_machine(tmp_path: Path) -> None:
    image = tmp_path / "containerd/conf.d/image.toml"
    image.parent.mkdir(parents=True)
    image.write_text("# baked\n")
    mirror, drop_in = "containerd/certs.d/docker.io/hosts.toml", "containerd/gpu.toml"
    assert brought(tmp_path, drop_in, mirror, "proxy.env").returncode == 0
    places = [
        tmp_path / "containerd/conf.d/gpu.toml", tmp_path / mirror, tmp_path / "settings/proxy.env"
    ]  # fmt: skip
    assert all(place.exists() for place in places)
    assert places[2].stat().st_mode & 0o777 == 0o600
    assert brought(tmp_path).stdout == "restart containerd\n"
    assert not any(place.exists() for place in places)
    assert image.exists()
    assert brought(tmp_path).stdout == ""


def test_containerd_learns_of_another_proxy(tmp_path: Path) -> None:
    assert brought(tmp_path, "proxy.env").stdout == "restart containerd\n"
    assert brought(tmp_path, "proxy.env").stdout == ""
    (tmp_path / "settings/proxy.env").write_text("# the one before\n")
    assert brought(tmp_path, "proxy.env").stdout == "restart containerd\n"


def test_a_run_that_is_cut_off_before_the_restart_leaves_it_to_the_next(tmp_path: Path) -> None:
    cut = "reload_systemd() { kill -9 $BASHPID; }"
    assert brought(tmp_path, "containerd/gpu.toml", then=cut).stdout == ""
    assert brought(tmp_path, "containerd/gpu.toml").stdout == "restart containerd\n"
    assert brought(tmp_path, "containerd/gpu.toml").stdout == ""


def test_a_kubelet_that_was_replaced_is_restarted_by_whichever_run_gets_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "artifacts/v1.36.3").mkdir(parents=True)
    result = functions(
        tmp_path,
        f"""
        state={tmp_path}/state version=v1.36.3 artifacts={tmp_path}/artifacts
        installed_version() {{ echo v1.36.2; }}; want_repository() {{ true; }}
        apt_install() {{ ls $state; exit; }}
        want_programs kubelet
        """,
    )
    assert result.stdout == "restart-kubelet\n"


def metadata_rules(folder: Path) -> Path:
    """What deny_metadata writes, below the folder; nothing of this machine is changed."""
    result = functions(
        folder,
        f"""
        settings={folder}
        running() {{ false; }}
        put() {{ cat >"{folder}/${{1##*/}}"; }}
        enable() {{ echo "enabled $1"; }}
        deny_metadata
        """,
    )
    assert result.stdout == "enabled openstack-kubernetes-metadata\n", result
    rules = folder / "metadata.nft"
    unit = (folder / "openstack-kubernetes-metadata.service").read_text()
    assert f"ExecStart=nft -f {rules}\n" in unit
    return rules


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


@pytest.mark.skipif(shutil.which("nft") is None, reason="needs nft")
def test_pods_do_not_reach_the_metadata_service_but_their_machine_does(tmp_path: Path) -> None:
    rules = metadata_rules(tmp_path)
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


def test_a_failure_names_the_line_and_the_command(tmp_path: Path) -> None:
    result = functions(tmp_path, "broken() { ls /nowhere; }\nbroken")
    assert result.returncode == 1
    assert "failed: ls /nowhere" in result.stderr


class TestUpdates:
    """The functions, with the machine's own programs replaced and /etc below a folder."""

    TIMER = "systemd/system/openstack-kubernetes-updates.timer"

    @staticmethod
    def configure(folder: Path, lines: str) -> subprocess.CompletedProcess[str]:
        etc = folder / "etc"
        (etc / "systemd/system").mkdir(parents=True, exist_ok=True)
        text = (USERDATA / "install/install.sh").read_text().replace("/etc/", f"{etc}/")
        head, _, _ = text.rpartition('main "$@"')
        script = folder / "install/functions.sh"
        script.write_text(
            f"""{head}
            running() {{ true; }}
            want_packages() {{ echo "package $*"; }}
            systemctl() {{ echo "systemctl $*"; }}
            {lines}
            configure_updates
            """
        )
        return subprocess.run(["bash", script], capture_output=True, text=True, check=False)

    def test_a_node_takes_its_turn_at_night(self, tmp_path: Path) -> None:
        result = self.configure(tmp_path, "SECURITY_UPDATES=true ROLE=worker")
        assert result.returncode == 0, result.stderr
        assert "package unattended-upgrades" in result.stdout
        timer = (tmp_path / "etc" / self.TIMER).read_text()
        assert "OnCalendar=*-*-* 00:00:00 UTC\nRandomizedDelaySec=4h\n" in timer
        config = (tmp_path / "etc/apt/apt.conf.d/52openstack-kubernetes").read_text()
        assert 'Automatic-Reboot "false"' in config
        assert "label=Debian-Security" in config

    def test_no_two_gateways_update_in_the_same_hour(self, tmp_path: Path) -> None:
        gateway = "SECURITY_UPDATES=true ROLE=gateway NODE_IP=10.8.0.12"
        self.configure(tmp_path, f'{gateway} GATEWAY_ADDRESSES="10.8.0.11 10.8.0.12"')
        timer = (tmp_path / "etc" / self.TIMER).read_text()
        assert "OnCalendar=*-*-* 01:00:00 UTC\nRandomizedDelaySec=30m\n" in timer

    def test_a_second_run_starts_nothing_anew(self, tmp_path: Path) -> None:
        first = self.configure(tmp_path, "SECURITY_UPDATES=true")
        assert "systemctl restart openstack-kubernetes-updates.timer" in first.stdout
        second = self.configure(tmp_path, "SECURITY_UPDATES=true")
        assert "restart" not in second.stdout
        assert "daemon-reload" not in second.stdout

    @pytest.mark.parametrize("value", ["", "SECURITY_UPDATES=false"])
    def test_it_is_taken_away_where_it_is_not_wanted(self, tmp_path: Path, value: str) -> None:
        self.configure(tmp_path, "SECURITY_UPDATES=true")
        result = self.configure(tmp_path, value)
        assert result.returncode == 0, result.stderr
        assert "systemctl -q disable openstack-kubernetes-updates.timer" in result.stdout
        assert not (tmp_path / "etc" / self.TIMER).exists()
        assert self.configure(tmp_path, value).stdout == ""

    @pytest.mark.skipif(not shutil.which("apt-config"), reason="no apt here")
    def test_apt_itself_takes_the_configuration(self, tmp_path: Path) -> None:
        self.configure(tmp_path, "SECURITY_UPDATES=true")
        before = tmp_path / "50unattended-upgrades"
        before.write_text('Unattended-Upgrade::Origins-Pattern { "origin=Debian,label=Debian"; };')
        ours = tmp_path / "etc/apt/apt.conf.d/52openstack-kubernetes"
        (tmp_path / "apt.conf").write_text(before.read_text() + "\n" + ours.read_text())
        said = subprocess.run(
            ["apt-config", "dump"], env={**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf")},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert 'Origins-Pattern:: "origin=Debian,label=Debian";' not in said
        assert "label=Debian-Security" in said
