"""lib/: files, messages, waiting, and the scripts that stay on a machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.scripts.conftest import FULL_DISK, USERDATA, Machine

SCRIPTS = sorted(str(path.relative_to(USERDATA)) for path in USERDATA.rglob("*.sh"))


def test_a_file_is_written_only_when_it_differs(machine: Machine) -> None:
    commands = (
        'write_file "$ROOT/etc/some/file" 0600 "one\ntwo"\n'
        'changed "$ROOT/etc/other" "$ROOT/etc/some/file" && echo changed || echo same'
    )
    assert machine.lib(commands).stdout == "changed\n"
    target = machine.root / "etc/some/file"
    assert target.read_text() == "one\ntwo\n"
    assert target.stat().st_mode & 0o777 == 0o600
    inode = target.stat().st_ino
    target.chmod(0o644)
    assert machine.lib(commands).stdout == "same\n"
    assert target.stat().st_ino == inode
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("write", ["write_file {} 0600 new", "copy_file ca.crt {} 0600"])
def test_a_full_disk_leaves_a_file_as_it_was(machine: Machine, write: str) -> None:
    path = machine.place("etc/settings", "old\n")
    result = machine.lib(f"{FULL_DISK}; {write.format(path)} || echo failed")
    assert result.stdout == "failed\n"
    assert path.read_text() == "old\n"


def test_what_an_interrupted_run_wrote_is_a_change_for_the_next_one(machine: Machine) -> None:
    run = "lock; write_file {path} 0644 text; changed {path} && echo changed; {end}"
    path = machine.root / "etc/settings"
    said = [
        machine.lib(run.format(path=path, end=end)).stdout
        for end in ("kill -9 $$", "false", "true", "true")
    ]
    assert said == ["changed\n", "changed\n", "changed\n", ""]


def test_a_run_that_loses_its_connection_ends_as_interrupted(machine: Machine) -> None:
    path = machine.root / "etc/settings"
    write = f"write_file {path} 0644 text"
    # The first line that reaches no one ends it.
    cut = machine.lib(
        f"lock; at_exit 'log bye; echo done >{machine.root}/cleaned'; exec 2> >(true); "
        f"sleep 0.3; {write}; touch {machine.root}/continued"
    )
    assert cut.status == 141
    assert path.exists()
    assert not machine.has("continued")
    assert machine.has("cleaned")
    assert machine.lib(f"lock; {write}; changed {path} && echo changed").stdout == "changed\n"


@pytest.fixture
def journald(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The socket of the journal; the path of one has few bytes."""
    path = machine.place("run/systemd/journal/stdout")
    path.unlink()
    monkeypatch.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
        yield


@pytest.mark.usefixtures("journald")
def test_a_program_outlives_the_connection_of_its_run(machine: Machine) -> None:
    program = f"sleep 0.3; echo one; sleep 0.1; echo two && touch {machine.root}/ended"
    after = f"log next; touch {machine.root}/continued"
    cut = machine.lib(f"exec 2> >(head -n 1 >&2); run bash -c '{program}'; {after}")
    assert cut.status == 141
    assert machine.has("ended")
    assert machine.journal.endswith("one\ntwo\n")
    assert not machine.has("continued")


@pytest.mark.usefixtures("journald")
@pytest.mark.parametrize("status", [0, 7])
def test_the_status_is_that_of_the_program_whose_output_reaches_no_one(
    machine: Machine, status: int
) -> None:
    program = f"sleep 0.3; echo one; exit {status}"
    result = machine.lib(
        f"exec 2> >(head -n 1 >&2); run bash -c '{program}' || code=$?; echo ${{code:-0}}"
    )
    assert result.stdout == f"{status}\n"


@pytest.mark.usefixtures("journald")
def test_in_a_unit_a_programs_output_goes_to_the_journal_once(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unit:
        port = unit.getsockname()[1]
        result = machine.lib(f"exec 2<>/dev/tcp/127.0.0.1/{port}; run echo said")
        assert result.status == 0
        with unit.accept()[0] as connection, connection.makefile() as text:
            log = text.read()
    assert log.endswith("+ echo said\n")
    assert machine.journal.endswith("said\n")


def test_hosts_keep_what_others_wrote_and_are_stable(machine: Machine) -> None:
    machine.place("etc/hosts", "127.0.0.1 localhost\n10.0.0.1 theirs\n")
    machine.lib("load_env\nwrite_hosts")
    first = machine.read("etc/hosts")
    assert first.splitlines() == [
        "127.0.0.1 localhost",
        "10.0.0.1 theirs",
        "# openstack-kubernetes begin (written by trial.sh)",
        "127.0.0.1 api.demo.internal",
        "10.8.0.21 demo-control-plane-0",
        "10.8.0.22 demo-control-plane-1",
        "10.8.0.99 demo-node",
        "# openstack-kubernetes end",
    ]
    machine.lib("load_env\nNODE_HOSTS=10.8.0.23=new\nwrite_hosts\nwrite_hosts")
    assert "10.8.0.23 new" in machine.read("etc/hosts")
    assert "demo-control-plane-0" not in machine.read("etc/hosts")
    assert machine.read("etc/hosts").count("begin") == 1


def test_cloud_init_must_not_write_the_hosts_file_again(machine: Machine) -> None:
    (machine.root / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
    machine.lib("load_env\nwrite_hosts")
    written = machine.read("etc/cloud/cloud.cfg.d/99-openstack-kubernetes.cfg")
    assert written == "manage_etc_hosts: false\n"


def test_an_error_names_node_step_unit_and_its_last_lines(machine: Machine) -> None:
    machine.answer("^systemctl is-active", "failed\n", status=3)
    machine.answer("^journalctl .*--unit=kubelet", "the last words\n")
    result = machine.lib('load_env\nstep "join the cluster"\ndie "it did not work" kubelet')
    assert result.status == 1
    for part in (
        'ERROR: node demo-node, trial.sh check, step "join the cluster": it did not work',
        "unit kubelet is failed",
        "  | the last words",
        "journalctl -t openstack-kubernetes/trial.sh",
    ):
        assert part in result.log


def test_a_command_that_fails_unnoticed_ends_the_script_with_its_place(machine: Machine) -> None:
    result = machine.lib('load_env\nstep "some step"\nfalse\necho not reached')
    assert result.status == 1
    assert '"false" ended with status 1' in result.log
    assert 'step "some step"' in result.log
    assert result.stdout == ""


def test_a_configuration_that_fails_says_how_to_take_its_change_back(machine: Machine) -> None:
    script = "source ./lib/lib.sh; $0"
    hint = "pulumi up --replace '**-configure'"
    for verb, command, said in (
        ("configure", "false", True), ("configure", "true", False), ("check", "false", False),
    ):  # fmt: skip
        result = machine.bash(["bash", "-c", script, command, verb], "")
        assert (hint in result.log) is said


def test_run_returns_the_status_of_the_command_and_shows_its_output(machine: Machine) -> None:
    result = machine.lib("run bash -c 'echo said; exit 7' || echo status $?")
    assert result.stdout == "status 7\n"
    assert "said" in result.log


def test_a_command_that_hangs_is_ended_and_the_error_names_the_step(machine: Machine) -> None:
    result = machine.lib("step 'wait'; COMMAND_TIMEOUT=1 run sleep 50 || die 'no sleep'")
    assert "sleep did not end within 1 s" in result.log
    assert 'step "wait": no sleep' in result.log


def test_a_script_that_is_ended_names_the_step(machine: Machine) -> None:
    script = "source ./lib/lib.sh; at_exit 'echo left'; step 'a long one'; sleep 50"
    result = machine.bash(["timeout", "1", "bash", "-c", script, "trial.sh", "check"], "")
    assert (result.status, result.stdout) == (124, "left\n")
    assert 'trial.sh check was ended in step "a long one"' in result.log


def test_everything_said_is_in_the_journal_too(machine: Machine) -> None:
    machine.lib('step "a step"')
    assert "-t openstack-kubernetes/trial.sh -- == a step\n" in machine.journal


def test_waiting_is_bounded_and_says_for_what(machine: Machine) -> None:
    result = machine.lib('wait_for 0 "the moon" false || echo gave up')
    assert result.stdout == "gave up\n"
    assert "the moon: not within 0 s" in result.log


def test_cleanups_run_last_first_and_the_status_stays(machine: Machine) -> None:
    result = machine.lib('at_exit "echo first"\nat_exit "echo second"\nexit 5')
    assert (result.status, result.stdout) == (5, "second\nfirst\n")


def test_missing_settings_are_named(machine: Machine) -> None:
    result = machine.lib("load_env NODE_NAME VIP")
    assert "node.env has no VIP" in result.log


def test_packages_are_installed_only_for_what_is_missing(machine: Machine) -> None:
    machine.lib("need_packages bash=bash")
    assert machine.called("apt-get") == []
    machine.lib("need_packages bash=bash surely-not-there=some-package")
    assert len(machine.called("update")) == 1
    assert machine.called("install")[0].endswith("install --no-install-recommends some-package")


def test_an_interrupted_installation_is_completed_before_the_next_one(machine: Machine) -> None:
    install = "need_packages surely-not-there=some-package"
    machine.lib(install)
    assert machine.called("dpkg ") == []
    machine.place("var/lib/dpkg/updates/0001")
    machine.answer("^dpkg --force-confold --configure -a", status=2, complains="lock is held")
    result = machine.lib(install)
    assert result.status == 0, result
    assert "lock is held" in result.log
    machine.order("dpkg --force-confold --configure -a", "install --no-install-recommends")


def test_a_second_run_waits_for_the_first(machine: Machine) -> None:
    machine.environment["LOCK_TIMEOUT"] = "0"
    result = machine.lib("lock\nbash -c 'source ./lib/lib.sh\nlock' inner.sh 9>&- || echo refused")
    assert "another run is at work" in result.log
    assert result.stdout == "refused\n"


def test_a_template_gets_its_values(machine: Machine) -> None:
    machine.write("some.conf", "port @API_PORT@\n@LIST@\nmail a@b.c\n")
    result = machine.lib("load_env\nrender some.conf API_PORT LIST=$'a & b\\n/c'")
    assert result.stdout == "port 6443\na & b\n/c\nmail a@b.c\n"


@pytest.mark.parametrize("keys", ["", "API_PORT"])
def test_a_template_is_not_written_by_halves(machine: Machine, keys: str) -> None:
    machine.write("some.conf", "port @API_PORT@ of @NODE@\n")
    result = machine.lib(f"load_env\ntext=$(render some.conf {keys})\necho written")
    assert result.status == 1
    assert "some.conf needs a value for @" in result.log
    assert result.stdout == ""


LIBRARY = "usr/local/lib/openstack-kubernetes"
CURRENT = f"{LIBRARY}/current"


def installed(machine: Machine) -> dict[str, str]:
    """The files of the current release."""
    current = machine.root / CURRENT
    files = (path for path in current.rglob("*") if path.is_file())
    return {str(path.relative_to(current)): path.read_text() for path in files}


def sent(machine: Machine) -> dict[str, str]:
    """The scripts of the folder of the run, and what lies among them."""
    folders = {path.parent for path in machine.folder.glob("*/*.sh")}
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(machine.folder)): path.read_text() for path in files}


def test_scripts_stay_on_the_machine_and_secrets_do_not(machine: Machine) -> None:
    machine.write("pki/ca.key", "secret\n")
    assert machine.lib("install_scripts").status == 0
    assert installed(machine) == sent(machine)
    assert machine.has(f"{CURRENT}/lib/files/haproxy.cfg")
    current = machine.root / CURRENT
    assert (current / "lib/lib.sh").stat().st_mode & 0o777 == 0o755
    assert (current / "lib/files/haproxy.cfg").stat().st_mode & 0o777 == 0o644
    assert current.resolve().stat().st_mode & 0o777 == 0o755
    assert machine.lib("install_scripts").status == 0
    assert machine.calls == []


def test_an_installed_script_reads_what_the_last_run_left(machine: Machine) -> None:
    machine.lib("install_scripts")
    command = f"source {machine.root}/{CURRENT}/lib/lib.sh; load_env; install_scripts; echo $HERE"
    result = machine.bash(["bash", "-c", command, "trial.sh", "check"], "")
    assert result.stdout.strip() == str((machine.root / CURRENT).resolve())


def test_the_settings_that_stay_are_on_the_disk_before_the_scripts_that_read_them(
    machine: Machine,
) -> None:
    machine.lib("install_scripts")
    machine.order(f"{machine.root}/etc/openstack-kubernetes/node.env", "/releases")


def test_one_older_release_stays(machine: Machine) -> None:
    releases = machine.root / LIBRARY / "releases"
    seen = []
    for text in ("one", "two", "three"):
        machine.write("lib/new.sh", f"echo {text}\n")
        assert machine.lib("install_scripts").status == 0
        seen.append((machine.root / CURRENT).resolve())
    assert set(releases.iterdir()) == set(seen[1:])


@pytest.mark.parametrize("program", ["mv", "sync", "cp", "chmod", "ln"])
@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_power_cut_leaves_the_old_scripts_or_the_new_ones(
    machine: Machine, program: str, which: int
) -> None:
    machine.lib("install_scripts")
    old = installed(machine)
    for path in ("lib/lib.sh", "worker/worker.sh"):
        machine.write(path, (machine.folder / path).read_text() + "# new\n")
    machine.write("node/more.sh", "# new\n")
    # The machine goes down when the program is called for this time, and does none of it.
    count = machine.root / "count"
    cut = f"""
        {program}() {{
          echo >>{count}
          (( $(wc -l <{count}) != {which} )) || kill -9 $$
          command {program} "$@"
        }}
        export -f {program}
        """
    machine.lib(f"{cut}\ninstall_scripts")
    assert installed(machine) in (old, sent(machine))
    assert machine.lib("install_scripts").status == 0
    assert installed(machine) == sent(machine)
    assert len(list((machine.root / LIBRARY / "releases").iterdir())) <= 2


def test_later_runs_have_the_settings_of_the_last_folder_alone(machine: Machine) -> None:
    for name in ("containerd/gpu.toml", "containerd/certs.d/docker.io/hosts.toml", "proxy.env"):
        machine.write(name, "x\n")
    settings = machine.root / "etc/openstack-kubernetes"
    assert machine.lib("install_scripts").status == 0
    assert (settings / "proxy.env").stat().st_mode & 0o777 == 0o600
    (machine.folder / "containerd/gpu.toml").unlink()
    (machine.folder / "proxy.env").unlink()
    assert machine.lib("install_scripts").status == 0
    left = sorted(p.relative_to(settings).as_posix() for p in settings.rglob("*.*ml"))
    assert left == ["containerd/certs.d/docker.io/hosts.toml"]
    assert not (settings / "proxy.env").exists()


def test_installing_a_package_restarts_no_other_service(machine: Machine) -> None:
    machine.answer("^apt-get", does="sys.stderr.write(os.environ['NEEDRESTART_SUSPEND'] + '!')")
    assert machine.lib("apt_install jq").log.count("1!") == 2


def test_apt_goes_through_the_proxy(machine: Machine) -> None:
    machine.write("proxy.env", "HTTP_PROXY=http://proxy:3128\nNO_PROXY=localhost\n")
    machine.answer("^apt-get", does="sys.stderr.write(repr(os.environ.get('http_proxy')))")
    result = machine.lib("need_packages surely-not-there=some-package; env | grep -i proxy || true")
    assert "http://proxy:3128" in result.log
    assert result.stdout == ""


def test_the_settings_of_a_proxy_are_not_run(machine: Machine) -> None:
    proxy = f"http://me:a$b&c;touch {machine.root}/run-$(id)'=@proxy:3128"
    machine.write("proxy.env", f"# the proxy\nHTTP_PROXY={proxy}\nNO_PROXY=localhost\n")
    result = machine.lib("with_proxy printenv http_proxy no_proxy; with_proxy true")
    assert result.stdout == f"{proxy}\nlocalhost\n"
    assert [path.name for path in machine.root.glob("run*")] == ["run"]


def test_units_are_only_enabled_where_systemd_does_not_run(machine: Machine) -> None:
    (machine.root / "run/systemd/system").rmdir()
    machine.answer("^systemctl is-enabled", status=1)
    machine.lib("unit_apply some.service; timer_apply night one two; timer_remove night")
    verbs = [line.split()[1] for line in machine.calls]
    assert set(verbs) <= {"is-enabled", "--quiet"}
    assert not machine.called("--now")


P256 = "ecdsa-sha2-nistp256 AAAA\n"
P384 = "ecdsa-sha2-nistp384 AAAA\n"


def test_the_one_time_host_key_goes_only_when_the_real_one_is_in_use(machine: Machine) -> None:
    key = machine.place("etc/ssh/ssh_host_ed25519_key", "one-time")
    machine.lib("load_env\ndrop_one_time_host_key")
    assert key.exists(), "the machine's own key stays"
    machine.write("host_key", "real\n")
    machine.write("host_key.pub", P256)
    # sshd needs a moment.
    machine.answer("^ssh-keyscan", f"127.0.0.1 {P256}")
    machine.answer("^ssh-keyscan", times=1)
    assert machine.run("host-key/host-key.sh", "install").status == 0
    assert sum(call.startswith("ssh-keyscan") for call in machine.calls) == 2
    assert machine.called("systemctl try-reload-or-restart ssh")
    assert machine.read("etc/ssh/ssh_host_ecdsa_key") == "real\n"
    assert (machine.root / "etc/ssh/ssh_host_ecdsa_key").stat().st_mode & 0o777 == 0o600
    assert key.exists()
    assert machine.run("host-key/host-key.sh", "install").status == 0
    assert machine.calls == []
    machine.lib("load_env\ndrop_one_time_host_key")
    assert not key.exists()
    machine.place("etc/ssh/ssh_host_ed25519_key", "made later")
    machine.lib("load_env\ndrop_one_time_host_key")
    assert key.exists()


def host_keys_of(machine: Machine) -> dict[str, str]:
    return {path.name: path.read_text() for path in (machine.root / "etc/ssh").glob("ssh_host_*")}


LIST = "etc/ssh/sshd_config.d/openstack-kubernetes.conf"


def test_a_machine_shows_two_host_keys_and_then_the_newest_only(machine: Machine) -> None:
    machine.place("etc/ssh/ssh_host_ecdsa_key", "old\n")
    machine.place("etc/ssh/ssh_host_ecdsa_key.pub", P256)
    machine.place("etc/ssh/ssh_host_ed25519_key", "the distribution's\n")
    machine.write("host_key", "new\n")
    machine.write("host_key.pub", P384)
    machine.write("older_host_key", "old\n")
    machine.write("older_host_key.pub", P256)
    assert machine.run("host-key/host-key.sh", "rotate").status == 0
    assert machine.called("systemctl try-reload-or-restart ssh")
    both = host_keys_of(machine)
    assert both["ssh_host_ecdsa384_key"] == "new\n"
    assert both["ssh_host_ecdsa_key"] == "old\n"
    assert machine.read(LIST).splitlines() == [
        f"HostKey /etc/ssh/ssh_host_{kind}_key" for kind in ("ecdsa384", "ecdsa", "ed25519")
    ]
    assert machine.run("host-key/host-key.sh", "rotate").status == 0
    assert machine.calls == []

    for name in ("older_host_key", "older_host_key.pub"):
        (machine.folder / name).unlink()
    assert machine.run("host-key/host-key.sh", "rotate").status == 0
    assert machine.called("systemctl try-reload-or-restart ssh")
    assert "ssh_host_ecdsa_key" not in host_keys_of(machine)
    assert "ssh_host_ecdsa_key.pub" not in host_keys_of(machine)
    assert "ssh_host_ecdsa_key" not in machine.read(LIST)
    machine.lib("load_env\ndrop_one_time_host_key")
    assert "ssh_host_ed25519_key" in host_keys_of(machine), "no one-time key has been here"

    # The next one is of the first curve again, which sshd lists by itself.
    machine.write("host_key", "newest\n")
    machine.write("host_key.pub", P256)
    assert machine.run("host-key/host-key.sh", "rotate").status == 0
    assert host_keys_of(machine)["ssh_host_ecdsa_key"] == "newest\n"
    assert not (machine.root / LIST).exists()


def test_the_list_of_host_keys_loses_the_one_time_key(machine: Machine) -> None:
    machine.place("etc/ssh/ssh_host_ed25519_key", "one-time")
    machine.write("host_key", "real\n")
    machine.write("host_key.pub", P384)
    machine.answer("^ssh-keyscan", f"127.0.0.1 {P384}")
    assert machine.run("host-key/host-key.sh", "install").status == 0
    assert "ed25519" in machine.read(LIST)
    machine.lib("load_env\ndrop_one_time_host_key")
    assert machine.read(LIST) == "HostKey /etc/ssh/ssh_host_ecdsa384_key\n"


def test_a_host_key_that_is_in_place_is_in_force_after_an_interruption(machine: Machine) -> None:
    machine.write("host_key", "new\n")
    machine.write("host_key.pub", P384)
    machine.answer("^systemctl try-reload-or-restart", status=1)
    assert machine.run("host-key/host-key.sh", "rotate").status == 1
    machine.answer("^systemctl try-reload-or-restart")
    assert machine.run("host-key/host-key.sh", "rotate").status == 0
    assert machine.called("systemctl try-reload-or-restart ssh")


def test_a_host_key_of_another_type_is_refused(machine: Machine) -> None:
    machine.write("host_key", "new\n")
    machine.write("host_key.pub", "ssh-ed25519 AAAA\n")
    result = machine.run("host-key/host-key.sh", "rotate")
    assert result.status == 1
    assert "host_key.pub is no ECDSA key of P-256 or P-384" in result.log


def test_the_scripts_start_no_process_with_a_secret(machine: Machine) -> None:
    assert machine.lib("true").status == 0
    for name in SCRIPTS:
        text = (USERDATA / name).read_text()
        for flag in ("--token=", "--token ", "--password", "--from-literal"):
            assert flag not in text, (name, flag)


def test_environment_of_a_proxy_does_not_reach_the_cluster(machine: Machine) -> None:
    machine.environment["https_proxy"] = "http://proxy:3128"
    assert machine.lib('echo "${https_proxy-none}"').stdout == "none\n"


@pytest.mark.parametrize("then", [0, 10**6])
def test_a_wait_takes_its_time_also_when_the_clock_is_set_meanwhile(
    machine: Machine, then: int
) -> None:
    come = machine.folder / "come"
    script = (
        f"source ./lib/lib.sh; jump() {{ SECONDS={then}; [[ -e {come} ]]; }}; "
        f'wait_for 2 "the moon" jump || echo gave up; (sleep 1; touch {come}) & '
        'wait_for 20 "what comes" jump && echo came'
    )
    command = ["timeout", "--kill-after=1", "15", "bash", "-c", script, "trial.sh", "check"]
    assert machine.bash(command, "").stdout == "gave up\ncame\n"


def test_the_marker_of_the_one_time_host_key_survives_a_power_cut(machine: Machine) -> None:
    for name in ("host_key", "host_key.pub"):
        machine.write(name, "ecdsa-sha2-nistp256 AAAA\n")
    machine.place("etc/ssh/ssh_host_ed25519_key", "one-time\n")
    marker = f"{machine.root}/var/lib/openstack-kubernetes/one-time-host-key"
    machine.answer(
        "^sync", does=f"if os.path.exists({marker!r}): open(here + '/synced', 'w').close()"
    )
    machine.answer("^ssh-keyscan", "127.0.0.1 ecdsa-sha2-nistp256 AAAA\n")
    assert machine.run("host-key/host-key.sh", "install").status == 0
    assert (machine.fakes / "synced").exists()
