"""backup.sh: snapshots of etcd on the disk and in the bucket, their proof, and the metrics for the
alerts."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from addons.monitoring.alerts import BACKUP_METRIC, PROOF_METRIC
from commands.fleet.clusters import BACKUP
from tests.scripts.conftest import BACKUP_FOLDER, BUCKET_ENV, COMMON, STORE, Machine, Result
from tests.unit.programs import program

BACKUPS = "var/backups/etcd"
METRICS = "var/lib/openstack-kubernetes/metrics/backup.prom"
PROOF_METRICS = "var/lib/openstack-kubernetes/metrics/backup-proof.prom"
KEYS = '"Revision" : 7123\n"More" : false\n"Count" : {}\n'


def store(machine: Machine, pattern: str, answer: str = "", status: str = "200") -> None:
    """Let the object store answer requests that match."""
    machine.answer(f"^curl .*{pattern}", does=STORE.format(answer=answer, status=status))


def listing(*names: str) -> str:
    keys = "".join(f"<Contents><Key>{name}</Key></Contents>" for name in names)
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>"


@pytest.fixture
def make(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A control plane whose etcd runs."""

    def machine(*, bucket: bool = False, **values: str) -> Machine:
        env = {
            **COMMON, "ROLE": "control-plane", "NODE_NAME": "demo-control-plane-0",
            "NODE_IP": "10.8.0.21", "BACKUP_KEEP": "2", **values,
        }  # fmt: skip
        made = make_machine(env)
        made.place("var/lib/etcd/member/snap/db", "x" * 1000)
        made.answer("^df ", "Avail\n1000000\n")
        made.answer("^crictl ps", "etcd-id\n")
        made.answer("^crictl exec etcd-id etcdctl .* get  --prefix --count-only", KEYS.format(41))
        made.answer(
            "^crictl exec etcd-id etcdctl .*snapshot save",
            does="import pathlib; pathlib.Path(here, '../root/var/lib/etcd/.snapshot')"
            ".write_text('the data')",
        )
        if bucket:
            made.write("bucket.env", BUCKET_ENV)
            made.encrypts()
            store(machine=made, pattern="", answer=listing())
            made.answer(
                "^curl .*--upload-file",
                "200",
                does="import shutil\n"
                "shutil.copy(sys.argv[sys.argv.index('--upload-file') + 1], here + '/object')",
            )
        return made

    return machine


def take(machine: Machine) -> Result:
    return machine.run("backup/backup.sh", "take")


def taken(machine: Machine) -> list[Path]:
    """The snapshots on the disk."""
    return sorted((machine.root / BACKUPS).glob("*.db.gz"))


def test_a_snapshot_is_on_the_disk_for_root_only(make: Callable[..., Machine]) -> None:
    machine = make()
    result = take(machine)
    assert result.status == 0, result
    [snapshot] = taken(machine)
    assert re.fullmatch(r"\d{8}T\d{6}Z-demo-control-plane-0\.db\.gz", snapshot.name)
    assert gzip.decompress(snapshot.read_bytes()) == b"the data"
    assert snapshot.stat().st_mode & 0o777 == 0o600
    assert snapshot.parent.stat().st_mode & 0o777 == 0o700
    assert not machine.has("var/lib/etcd/.snapshot")
    assert not machine.called("curl")


def test_the_oldest_of_this_control_plane_are_deleted(make: Callable[..., Machine]) -> None:
    machine = make()
    for name in ("20260101T000000Z-demo-control-plane-0", "20260102T000000Z-demo-control-plane-0"):
        machine.place(f"{BACKUPS}/{name}.db.gz")
        machine.place(f"{BACKUPS}/{name}.db.gz.keys")
    assert take(machine).status == 0
    for kept in (taken(machine), sorted((machine.root / BACKUPS).glob("*.keys"))):
        assert len(kept) == 2
        assert kept[0].name.startswith("20260102")


def test_without_room_etcds_disk_is_not_filled(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^df ", "Avail\n1999\n")
    result = take(machine)
    assert result.status == 1
    assert "has 1999 bytes left, and needs 2000 for a snapshot" in result.log
    assert "etcd's database has 1000" in result.log
    assert not machine.called("snapshot save")


def test_a_lower_number_and_what_a_killed_run_left_make_room(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^df ", "Avail\n1999\n")
    for day in range(1, 5):
        machine.place(f"{BACKUPS}/2026010{day}T000000Z-demo-control-plane-0.db.gz")
    left = ("var/lib/etcd/.snapshot.part", f"{BACKUPS}/.new.x.db.gz", f"{BACKUPS}/.new.x.pieces/aa")
    for path in left:
        machine.place(path)
    assert take(machine).status == 1
    assert [path.name[:8] for path in taken(machine)] == ["20260103", "20260104"]
    assert not any(machine.has(path) for path in left)


def test_a_failed_snapshot_leaves_nothing(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^crictl exec", status=1, complains="context deadline exceeded\n")
    result = take(machine)
    assert result.status == 1
    assert "context deadline exceeded" in result.log
    assert not machine.has(METRICS)
    assert not list((machine.root / BACKUPS).iterdir())


def test_an_etcd_that_restarts_is_waited_for(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.environment["ETCD_TIMEOUT"] = "20"
    machine.answer("^crictl exec .*--count-only", status=1, times=1)
    machine.answer("^crictl ps", "", times=1)
    assert take(machine).status == 0
    assert len(taken(machine)) == 1


def test_the_snapshot_of_a_member_without_majority_does_not_count_as_new(
    make: Callable[..., Machine],
) -> None:
    machine = make(bucket=True)
    machine.answer("get health", status=1)
    result = take(machine)
    assert result.status == 1
    assert "stays on this disk and is not copied: this etcd has no majority" in result.log
    assert taken(machine)
    assert not machine.called("--upload-file")
    assert not machine.has(METRICS)


def test_a_bucket_that_cannot_be_listed_is_an_error(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    store(machine, "list-type=2", "<IsTruncated>true</IsTruncated>")
    result = take(machine)
    assert result.status == 1
    assert "more than 1000 objects" in result.log
    assert "the bucket backups cannot be listed" in result.log


def test_a_machine_without_etcd_says_so(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^crictl ps", "")
    result = take(machine)
    assert result.status == 1
    assert "no etcd runs on this machine" in result.log


def test_the_bucket_gets_an_encrypted_copy_in_the_clusters_folder(
    make: Callable[..., Machine],
) -> None:
    machine = make(bucket=True)
    result = take(machine)
    assert result.status == 0, result
    [put] = machine.called("--upload-file")
    [snapshot] = taken(machine)
    assert put.endswith(f"/backups/{BACKUP_FOLDER}/{snapshot.name}.cms.tar")
    copy = machine.fakes / "object"
    assert hashlib.sha256(copy.read_bytes()).hexdigest() in put
    assert snapshot.read_bytes() not in copy.read_bytes()
    # As docs/operations/backups.md opens it by hand.
    opened = subprocess.run(
        ["tar", "-xf", copy,
         "--to-command=openssl cms -decrypt -binary -inform DER -inkey backup.key"],
        cwd=machine.folder, capture_output=True, check=True,
    )  # fmt: skip
    assert opened.stdout == snapshot.read_bytes()
    assert {each.name for each in (machine.root / BACKUPS).iterdir()} == {
        snapshot.name, f"{snapshot.name}.keys"
    }  # fmt: skip


def test_without_its_certificate_nothing_goes_into_the_bucket(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    (machine.folder / "backup.crt").unlink()
    result = take(machine)
    assert result.status == 1
    assert "is on this disk, but not in the bucket backups" in result.log
    assert not machine.called("--upload-file")


def test_the_secret_key_is_in_no_command_line_and_no_log(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    result = take(machine)
    login = (machine.fakes / "login").read_text()
    assert 'user = "AKEY:se\\"cr\\\\et"\naws-sigv4 = "aws:amz:here:s3"\n' in login
    assert "cr\\et" not in "".join(machine.calls) + result.log + machine.journal


def test_the_oldest_of_this_control_plane_are_deleted_from_the_bucket(
    make: Callable[..., Machine],
) -> None:
    machine = make(bucket=True)
    # An earlier release did not encrypt.
    names = [
        f"{BACKUP_FOLDER}/2026010{day}T000000Z-demo-control-plane-0.db.gz{end}"
        for day, end in ((3, ".cms.tar"), (1, ""), (2, ".cms.tar"))
    ]
    others = f"{BACKUP_FOLDER}/20250101T000000Z-demo-control-plane-1.db.gz"
    store(machine, "list-type=2", listing(others, *names))
    assert take(machine).status == 0
    [gone] = machine.called("--request DELETE")
    assert gone.endswith(names[1])


def test_a_refused_copy_says_why_and_keeps_the_one_on_the_disk(
    make: Callable[..., Machine],
) -> None:
    machine = make(bucket=True)
    refusal = "<Error><Code>SignatureDoesNotMatch</Code><Message>wrong key</Message></Error>"
    store(machine, "--upload-file", refusal, "403")
    result = take(machine)
    assert result.status == 1
    assert "answers 403 SignatureDoesNotMatch: wrong key" in result.log
    assert "is on this disk, but not in the bucket backups" in result.log
    assert len(machine.called("--upload-file")) == 1
    assert taken(machine)
    told = machine.read(METRICS)
    assert 'place="disk"' in told
    assert 'place="bucket"' not in told


@pytest.mark.parametrize("bucket", [False, True])
def test_a_metric_says_when_the_newest_was_taken(
    make: Callable[..., Machine], bucket: bool
) -> None:
    machine = make(bucket=bucket)
    assert take(machine).status == 0
    line = rf'^{BACKUP_METRIC}{{place="(\w+)"}} (\d+)$'
    told = dict(re.findall(line, machine.read(METRICS), re.MULTILINE))
    assert set(told) == ({"disk", "bucket"} if bucket else {"disk"})
    assert all(int(each) > 1_700_000_000 for each in told.values())
    # node-exporter is an unprivileged user.
    assert (machine.root / METRICS).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("bucket", "place"), [(False, "disk"), (True, "bucket")])
def test_the_node_says_when_and_where_the_newest_was_taken(
    make: Callable[..., Machine], bucket: bool, place: str
) -> None:
    machine = make(bucket=bucket)
    assert take(machine).status == 0
    [snapshot] = taken(machine)
    time = snapshot.name.partition("-")[0]
    [noted] = machine.called("annotate")
    assert noted.endswith(f"annotate node demo-control-plane-0 --overwrite {BACKUP}={time} {place}")


def test_one_that_is_not_in_the_bucket_is_not_noted(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    store(machine, "--upload-file", "", "403")
    assert take(machine).status == 1
    assert not machine.called("annotate")


def test_an_api_that_does_not_answer_does_not_prevent_a_backup(
    make: Callable[..., Machine],
) -> None:
    machine = make(bucket=True)
    machine.answer("^kubectl .* annotate", status=1)
    result = take(machine)
    assert result.status == 0, result
    assert "could not be annotated" in result.log


def test_list_says_what_can_be_restored(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    machine.place(f"{BACKUPS}/20260102T000000Z-demo-control-plane-0.db.gz")
    there = f"{BACKUP_FOLDER}/20260101T000000Z-demo-control-plane-1.db.gz"
    store(machine, "list-type=2", listing(there))
    result = machine.run("backup/backup.sh", "list")
    assert result.status == 0, result
    assert "  20260102T000000Z-demo-control-plane-0.db.gz\n" in result.stdout
    assert f"  {there}\n" in result.stdout


def test_a_proxy_leads_to_the_store(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    machine.write("proxy.env", "HTTPS_PROXY=http://proxy.example.org:3128\n")
    answer = STORE.format(answer=listing(), status="200")
    machine.answer("^curl", does=f"assert os.environ['HTTPS_PROXY']\n{answer}")
    assert take(machine).status == 0


def test_a_store_that_does_not_answer_is_asked_again(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    machine.answer("^curl .*--upload-file", "000", status=28, complains="timed out\n", times=2)
    assert take(machine).status == 0
    assert len(machine.called("--upload-file")) == 3


def test_an_outage_of_the_store_costs_no_copy(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    machine.answer("^curl .*--upload-file", "000", status=7, times=7)
    assert take(machine).status == 0
    assert 'place="bucket"' in machine.read(METRICS)


def test_a_store_that_never_answers_is_named(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    machine.environment["BUCKET_TIMEOUT"] = "1"
    machine.answer("^curl .*--upload-file", "000", status=28, complains="timed out\n")
    result = take(machine)
    assert result.status == 1
    assert "timed out" in result.log
    assert "https://object.example.org/backups answers nothing" in result.log


# --- the proof ----------------------------------------------------------------------------------

OBJECT = f"{BACKUP_FOLDER}/20261122T010203Z-demo-control-plane-0.db.gz.cms.tar"


@pytest.fixture
def make_proof(make: Callable[..., Machine]) -> Callable[..., Machine]:
    """A control plane with a snapshot of 41 keys, and an image of etcd that restores as many."""

    def machine(*, bucket: bool = False, restores: int = 41) -> Machine:
        made = make(bucket=bucket)
        assert take(made).status == 0
        [snapshot] = taken(made)
        name = "20261122T010203Z-demo-control-plane-0.db.gz"
        snapshot.rename(snapshot.with_name(name))
        snapshot.with_name(f"{snapshot.name}.keys").rename(snapshot.with_name(f"{name}.keys"))
        if bucket:
            store(made, "list-type=2", listing(OBJECT))
            made.answer(
                f"^curl .*/backups/{OBJECT}",
                "200",
                does="import shutil\n"
                "shutil.copy(here + '/object', sys.argv[sys.argv.index('--output') + 1])",
            )
        made.answer("^df .*avail", "Avail\n1000000000\n")
        made.answer("^df .*size", "1B-blocks\n7000000000\n")
        made.answer("^crictl inspect .*pid", "77\n")
        for name in ("etcd", "etcdctl", "etcdutl"):
            shutil.copy(made.fakes / "fake", made.fakes / name)
            inside = made.root / f"proc/77/root/usr/local/bin/{name}"
            program(inside, f'#!/bin/bash\nexec {made.fakes}/{name} "$@"\n')
        made.answer("^etcdutl", does="assert open('snapshot').read() == 'the data'")
        made.answer("^etcd ", does="import time; time.sleep(60)")
        made.answer(
            "^etcdctl .*health", does="sys.exit('\"etcd --' not in open(here + '/calls').read())"
        )
        made.answer("^etcdctl .*--count-only", KEYS.format(restores))
        return made

    return machine


def prove(machine: Machine) -> Result:
    return machine.run("backup/backup.sh", "prove")


@pytest.mark.parametrize("bucket", [False, True])
def test_the_newest_snapshot_is_restored_and_its_keys_counted(
    make_proof: Callable[..., Machine], bucket: bool
) -> None:
    machine = make_proof(bucket=bucket)
    result = prove(machine)
    assert result.status == 0, result
    assert "restores: 41 keys at revision 7123" in result.log
    machine.order("etcdutl snapshot restore", "etcd --data-dir=data", "--rev=7123")
    # Nothing reaches the restored etcd but root, through the folder.
    [started] = (line for line in machine.calls if line.startswith("etcd "))
    assert "--listen-client-urls=unix:" in started
    assert "--listen-peer-urls=unix:" in started
    assert not machine.has(f"{BACKUPS}/.proof")
    # 2026-11-22 01:02:03 UTC
    assert f"\n{PROOF_METRIC} 1795309323\n" in machine.read(PROOF_METRICS)
    assert bool(machine.called(f"/backups/{OBJECT}")) == bucket


def test_a_snapshot_with_other_keys_is_not_proved(make_proof: Callable[..., Machine]) -> None:
    machine = make_proof(restores=40)
    result = prove(machine)
    assert result.status == 1
    assert "at revision 7123 it has 40 keys, and etcd had 41" in result.log
    assert not machine.has(PROOF_METRICS)
    assert not machine.has(f"{BACKUPS}/.proof")


def test_a_damaged_copy_is_not_proved(make_proof: Callable[..., Machine]) -> None:
    machine = make_proof(bucket=True)
    copy = machine.fakes / "object"
    content = bytearray(copy.read_bytes())
    content[content.rindex(b"\x04\x10") + 5] ^= 1  # in GCM's tag, which ends the message
    copy.write_bytes(content)
    result = prove(machine)
    assert result.status == 1
    assert f"{OBJECT} is damaged, or not encrypted for the key of this cluster" in result.log
    assert not machine.called("etcdutl")
    assert not machine.has(PROOF_METRICS)


def test_a_proof_does_not_fill_the_disk(make_proof: Callable[..., Machine]) -> None:
    machine = make_proof()
    machine.answer("^df .*avail", "Avail\n968000000\n")
    result = prove(machine)
    assert result.status == 1
    assert "has 968000000 bytes left, and needs 968438456 for the proof of a snapshot" in result.log
    assert not machine.called("etcdutl")


def test_what_a_killed_proof_left_goes(make_proof: Callable[..., Machine]) -> None:
    machine = make_proof()
    machine.place(f"{BACKUPS}/.proof/data/member/snap/db", "half")
    assert prove(machine).status == 0


def test_a_snapshot_whose_keys_were_not_counted_waits_for_the_next_one(
    make_proof: Callable[..., Machine],
) -> None:
    machine = make_proof()
    [snapshot] = taken(machine)
    snapshot.with_name(f"{snapshot.name}.keys").unlink()
    result = prove(machine)
    assert result.status == 1
    assert "did not record how many keys etcd had: the next snapshot can be" in result.log


def test_a_restored_etcd_that_does_not_start_shows_its_log(
    make_proof: Callable[..., Machine],
) -> None:
    machine = make_proof()
    machine.answer("^etcd ", "the log is corrupt\n", status=1)
    machine.answer("^etcdctl .*health", status=1)
    result = prove(machine)
    assert result.status == 1
    assert "  | the log is corrupt" in result.log
    assert "does not start" in result.log
    assert not machine.has(PROOF_METRICS)


# --- clocks that were wrong ---------------------------------------------------------------------

FUTURE = ("20991231T000000Z-demo-control-plane-0", "20991231T060000Z-demo-control-plane-0")
# What is in the bucket, and what was put into it since.
LISTING = """
import pathlib, re
put = re.findall(r"--upload-file [^ ]+ .*?/backups/([^ \\"]+)", open(here + "/calls").read())
keys = [f"<Key>{name}</Key>" for name in [*NAMES, *put]]
words = sys.argv[1:]
pathlib.Path(words[words.index("--output") + 1]).write_text(
    "<IsTruncated>false</IsTruncated>" + "".join(keys))
sys.stdout.write("200")
"""


def test_a_snapshot_outlives_those_of_a_clock_that_was_ahead(make: Callable[..., Machine]) -> None:
    machine = make()  # BACKUP_KEEP=2
    for name in FUTURE:
        machine.place(f"{BACKUPS}/{name}.db.gz", "of a clock that was ahead")
    take(machine)
    kept = [path.name for path in taken(machine)]
    assert any(name.startswith(time.strftime("%Y")) for name in kept)
    assert f"{FUTURE[0]}.db.gz" not in kept


def test_an_object_outlives_those_of_a_clock_that_was_ahead(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)  # BUCKET_KEEP=2
    names = [f"{BACKUP_FOLDER}/{name}.db.gz.cms.tar" for name in FUTURE]
    machine.answer("^curl .*list-type", does=LISTING.replace("NAMES", repr(names)))
    assert take(machine).status == 0
    [deleted] = machine.called("--request DELETE")
    assert deleted.endswith(names[0])


def test_a_snapshot_of_a_clock_that_was_ahead_is_not_the_newest(
    make_proof: Callable[..., Machine],
) -> None:
    machine = make_proof()
    for path in (machine.root / BACKUPS).glob("20261122*"):
        path.rename(path.with_name(path.name.replace("20261122", "20991122")))
    assert take(machine).status == 0
    machine.answer("^etcdctl .*--count-only", KEYS.format(41))
    assert prove(machine).status == 0
    assert int(machine.read(PROOF_METRICS).split()[-1]) <= time.time()


# --- what ended runs have left ------------------------------------------------------------------


def test_a_container_that_hangs_does_not_hold_up_the_snapshots(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.environment["COMMAND_TIMEOUT"] = "1"
    machine.answer("^crictl exec .*snapshot save", does="import time; time.sleep(40)")
    command = ["timeout", "--kill-after=1", "15", "bash", "./backup/backup.sh", "take"]
    assert machine.bash(command, "").status == 1


def test_what_a_killed_proof_has_left_takes_no_room(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.place(f"{BACKUPS}/.proof/data/member/snap/db", "x")
    assert take(machine).status == 0
    assert not machine.has(f"{BACKUPS}/.proof")


def test_a_proof_that_is_at_work_keeps_its_folder(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.place(f"{BACKUPS}/.proof/data/member/snap/db", "x")
    with machine.place("run/openstack-kubernetes/proof.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert take(machine).status == 0
    assert machine.has(f"{BACKUPS}/.proof")


def test_a_time_that_was_half_written_spoils_no_metric(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    machine.place("var/lib/openstack-kubernetes/backup-bucket")
    machine.environment["BUCKET_TIMEOUT"] = "0"
    machine.answer("^curl .*--upload-file", status=7)
    assert take(machine).status == 1
    samples = [line for line in machine.read(METRICS).splitlines() if not line.startswith("#")]
    assert samples
    assert all(len(line.split()) == 2 for line in samples)
