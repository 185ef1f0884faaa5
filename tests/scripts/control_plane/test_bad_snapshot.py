"""restore.sh with a snapshot that is no good."""

from __future__ import annotations

from collections.abc import Callable

from tests.scripts.conftest import STORE, Machine
from tests.scripts.control_plane.conftest import (
    SNAPSHOT,
    configure,
    restored,
    with_bucket,
    with_snapshot,
)


def test_a_snapshot_that_cannot_be_read_is_named(make: Callable[..., Machine]) -> None:
    machine = with_bucket(make(RESTORE=SNAPSHOT), SNAPSHOT)
    refusal = STORE.format(
        answer="<Error><Code>NoSuchKey</Code><Message>none</Message></Error>", status="404"
    )
    machine.answer(f"^curl .*backups/{SNAPSHOT}", does=refusal)
    result = configure(machine)
    assert result.status == 1
    assert "answers 404 NoSuchKey: none" in result.log
    assert f"{SNAPSHOT} cannot be read from the bucket backups" in result.log
    assert not machine.called("kubeadm init --config")


def test_an_image_without_etcdutl_gives_way_to_one_that_has_it(
    make: Callable[..., Machine],
) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT, ETCD_IMAGE="o.example/etcd:3.6.8-0")))
    machine.answer("^kubeadm config images list", "r.example/etcd:3.6.7-0\n")
    machine.answer("^crictl inspecti .*o.example", status=1)
    result = configure(machine)
    assert result.status == 0, result
    assert "r.example/etcd:3.6.7-0 has no etcdutl" in result.log
    assert machine.called("crictl pull o.example/etcd:3.6.8-0")


def test_a_damaged_snapshot_shows_the_output_of_etcdutl(make: Callable[..., Machine]) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    machine.answer(
        "^crictl run ",
        "container-id\n",
        does="import json, pathlib\n"
        "pod = json.load(open(sys.argv[-1]))\n"
        "log = 'T stdout F {\"revision\":5}\\nexpected sha256\\n'\n"
        "pathlib.Path(pod['log_directory'], 'etcdutl.log').write_text(log)",
    )
    machine.answer("^crictl inspect .*status.exitCode", "1")
    machine.answer("^crictl inspect .*status.exitCode", "0", times=1)
    result = configure(machine)
    assert result.status == 1
    assert "  | expected sha256" in result.log
    assert f"etcdutl could not restore {SNAPSHOT}" in result.log
    assert not machine.called("kubeadm init --config")
