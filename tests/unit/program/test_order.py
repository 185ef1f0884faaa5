"""The order in which machines come, join and change."""

from __future__ import annotations

import itertools

from tests.unit.engine import GATEWAYS, NODES, SERVER, Run, command, run, server


def test_new_machines_come_up_in_parallel(fresh: Run) -> None:
    servers = fresh.all(SERVER).values()
    assert not any(fresh.waits_for(a, b) for a in servers for b in servers)


def test_etcd_members_join_one_at_a_time(fresh: Run) -> None:
    for earlier, later in (
        ("demo-control-plane-0", "demo-control-plane-1"),
        ("demo-control-plane-1", "demo-control-plane-2"),
    ):
        assert fresh.waits_for(
            command(fresh, f"{later}-configure"), command(fresh, f"{earlier}-configure")
        )


def test_control_planes_are_prepared_while_the_first_one_begins_the_cluster(fresh: Run) -> None:
    first = command(fresh, "demo-control-plane-0-configure")
    for index in (1, 2):
        name = f"demo-control-plane-{index}"
        prepare = command(fresh, f"{name}-prepare")
        assert not fresh.waits_for(prepare, first)
        assert fresh.waits_for(prepare, fresh.one("remote:CopyToRemote", f"{name}-scripts"))
        assert fresh.waits_for(command(fresh, f"{name}-configure"), prepare)


def test_a_machine_is_prepared_once_whatever_changes_in_its_folder(fresh: Run) -> None:
    prepare = command(fresh, "demo-control-plane-1-prepare")
    assert {"create", "stdin", "connection"} <= {*prepare.ignore_changes}
    assert prepare.inputs["triggers"] == ["demo-control-plane-1-id"]


def test_workers_join_in_parallel(fresh: Run) -> None:
    assert not fresh.waits_for(
        command(fresh, "demo-worker-1-join"), command(fresh, "demo-worker-0-join")
    )


def test_workers_join_a_new_cluster_alongside_the_other_control_planes(fresh: Run) -> None:
    join = command(fresh, "demo-worker-0-join")
    assert fresh.waits_for(join, command(fresh, "demo-control-plane-0-join"))
    assert not fresh.waits_for(join, command(fresh, "demo-control-plane-1-configure"))


def test_a_worker_joins_an_existing_cluster_after_every_control_plane(updated: Run) -> None:
    join = command(updated, "demo-worker-2-join")
    assert updated.waits_for(join, command(updated, "demo-control-plane-2-join"))


def test_an_existing_machine_changes_only_after_the_one_before_it_is_ready(updated: Run) -> None:
    for earlier, later in itertools.pairwise(NODES):
        assert updated.waits_for(server(updated, later), command(updated, f"{earlier}-join"))


def test_control_planes_of_an_update_that_failed_change_in_turn_too() -> None:
    """Together they would take the majority of etcd with them."""
    three = ["demo-control-plane-0", "demo-control-plane-1", "demo-control-plane-2"]
    failed = run(existing=[*GATEWAYS, three[0]], unfinished=[*three[1:], "demo-worker-0"])
    for earlier, later in itertools.pairwise(three):
        assert failed.waits_for(server(failed, later), command(failed, f"{earlier}-join"))
    # Workers come up in parallel, also at the second try.
    assert not failed.waits_for(
        server(failed, "demo-worker-0"), command(failed, f"{three[2]}-join")
    )


def test_existing_workers_change_in_turn_and_after_control_planes(
    updated: Run,
) -> None:
    change = command(updated, "demo-worker-1-configure")
    assert updated.waits_for(change, command(updated, "demo-worker-0-join"))
    assert updated.waits_for(change, command(updated, "demo-control-plane-2-join"))


def test_a_new_worker_waits_for_no_existing_one(updated: Run) -> None:
    new = server(updated, "demo-worker-2")
    assert not any(updated.waits_for(new, server(updated, name)) for name in NODES)


def test_as_many_workers_change_at_once_as_the_pool_allows() -> None:
    names = [*NODES, "demo-worker-2", "demo-worker-3"]
    pool = run({"workerCount": 4, "worker": {"maxUnavailable": 2}}, existing=names)

    def waits(later: int, earlier: int) -> bool:
        return pool.waits_for(
            server(pool, f"demo-worker-{later}"), command(pool, f"demo-worker-{earlier}-join")
        )

    assert not waits(1, 0)
    assert waits(2, 0)
    assert not waits(2, 1)
    assert waits(3, 1)


def test_gateways_change_in_turn_and_before_all_else() -> None:
    changed = run(existing=[*GATEWAYS, *NODES])
    earlier = changed.one("local:Command", "demo-gateway-0-handover")
    assert changed.waits_for(server(changed, "demo-gateway-1"), earlier)
    last = changed.one("local:Command", "demo-gateway-1-handover")
    assert changed.waits_for(server(changed, "demo-control-plane-0"), last)
