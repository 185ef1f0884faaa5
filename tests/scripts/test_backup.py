"""backup.sh: snapshots of etcd on the disk and in the bucket, and the metrics for the alerts."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Mapping

import pytest

from addons.monitoring.alerts import BACKUP_METRIC
from tests.scripts.conftest import BACKUP_FOLDER, BUCKET_ENV, COMMON, STORE, Machine, Result

BACKUPS = "var/backups/etcd"
METRICS = "var/lib/openstack-kubernetes/metrics/backup.prom"


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
        made.answer(
            "^crictl exec etcd-id etcdctl .*snapshot save",
            does="import pathlib; pathlib.Path(here, '../root/var/lib/etcd/.snapshot')"
            ".write_text('the data')",
        )
        if bucket:
            made.write("bucket.env", BUCKET_ENV)
            store(machine=made, pattern="", answer=listing())
        return made

    return machine


def take(machine: Machine) -> Result:
    return machine.run("backup/backup.sh", "take")


def test_a_snapshot_is_on_the_disk_for_root_only(make: Callable[..., Machine]) -> None:
    machine = make()
    result = take(machine)
    assert result.status == 0, result
    [snapshot] = (machine.root / BACKUPS).iterdir()
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
    assert take(machine).status == 0
    kept = sorted(each.name[:8] for each in (machine.root / BACKUPS).iterdir())
    assert len(kept) == 2
    assert kept[0] == "20260102"


def test_without_room_etcds_disk_is_not_filled(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^df ", "Avail\n1999\n")
    result = take(machine)
    assert result.status == 1
    assert "has 1999 bytes left, and needs 2000, because etcd's database has 1000" in result.log
    assert not machine.called("snapshot save")


def test_a_failed_snapshot_leaves_nothing(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^crictl exec", status=1, complains="context deadline exceeded\n")
    result = take(machine)
    assert result.status == 1
    assert "context deadline exceeded" in result.log
    assert not machine.has(METRICS)
    assert not list((machine.root / BACKUPS).iterdir())


def test_the_snapshot_of_a_member_without_majority_does_not_count_as_new(
    make: Callable[..., Machine],
) -> None:
    machine = make(bucket=True)
    machine.answer("endpoint health", status=1)
    result = take(machine)
    assert result.status == 1
    assert "stays on this disk and is not copied: this etcd has no majority" in result.log
    assert list((machine.root / BACKUPS).iterdir())
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


def test_the_bucket_gets_a_copy_in_the_clusters_folder(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    result = take(machine)
    assert result.status == 0, result
    [put] = machine.called("--upload-file")
    [snapshot] = (machine.root / BACKUPS).iterdir()
    assert put.endswith(f"https://object.example.org/backups/{BACKUP_FOLDER}/{snapshot.name}")
    assert hashlib.sha256(snapshot.read_bytes()).hexdigest() in put


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
    names = [
        f"{BACKUP_FOLDER}/2026010{day}T000000Z-demo-control-plane-0.db.gz" for day in (3, 1, 2)
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
    assert list((machine.root / BACKUPS).iterdir())
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


def test_a_store_that_never_answers_is_named(make: Callable[..., Machine]) -> None:
    machine = make(bucket=True)
    machine.answer("^curl .*--upload-file", "000", status=28, complains="timed out\n")
    result = take(machine)
    assert result.status == 1
    assert "timed out" in result.log
    assert "https://object.example.org/backups answers nothing" in result.log
