"""The order in which machines leave: drained, stopped, handed over."""

from __future__ import annotations

import itertools
import re

import pytest

from components import last_update
from tests.unit.engine import COMMAND, GATEWAYS, NODES, Run, command, node_env, run, server
from tests.unit.program.settings import METAL_1


@pytest.mark.parametrize(
    "row",
    [
        [f"{COMMAND}/demo-control-plane-{i}-membership" for i in range(3)],
        [f"local:Command/{name}-handover" for name in GATEWAYS],
    ],
)
def test_machines_of_the_first_update_leave_one_at_a_time(fresh: Run, row: list[str]) -> None:
    each = [fresh.one(*step.split("/")) for step in row]
    assert all(fresh.waits_for(later, earlier) for earlier, later in itertools.pairwise(each))


def test_what_has_not_left_yet_is_found_in_the_state(fresh: Run) -> None:
    """By the names of what runs when a machine leaves."""
    names = [each.name for each in fresh.resources.values()]
    ends = last_update._ON_LEAVING
    assert {n.removesuffix(end) for end in ends for n in names if n.endswith(end)} == {
        *GATEWAYS,
        *NODES,
    }


def test_workers_of_the_last_update_leave_as_many_at_a_time_as_the_pool_allows() -> None:
    pool = run({"workerCount": 4, "worker": {"maxUnavailable": 2}})

    def turn(index: int) -> str:
        line = command(pool, f"demo-worker-{index}-membership").inputs["delete"]
        [name] = re.findall(r"/run/lock/openstack-kubernetes-(drain-\S+);", line)
        return str(name)

    assert turn(0) == turn(2) != turn(1) == turn(3)
    # They still join in parallel.
    assert "drain-" not in command(pool, "demo-worker-0-join").inputs["create"]


def test_a_membership_drains_before_its_server_goes_but_not_on_destroy(fresh: Run) -> None:
    network = fresh.one("network:Network", "demo")
    for name in NODES:
        membership = command(fresh, f"{name}-membership")
        assert "cluster/drain.sh drain" in membership.inputs["delete"]
        assert membership.inputs["triggers"] == [f"{name}-id"]
        assert membership.delete_before_replace
        assert membership.deleted_with == network.urn
        assert fresh.waits_for(membership, server(fresh, name))


def test_whatever_lets_a_node_join_comes_after_what_takes_it_out(fresh: Run) -> None:
    # What fails or is interrupted half-way is in no state: nothing would be deleted with it.
    for name in NODES:
        membership = command(fresh, f"{name}-membership")
        assert membership.inputs.get("create") is None
        step = "configure" if "control-plane" in name else "join"
        assert fresh.waits_for(command(fresh, f"{name}-{step}"), membership)
        assert f"{name}-membership-id" in command(fresh, f"{name}-{step}").inputs["triggers"]


def test_a_machine_has_the_keys_that_its_drain_uses() -> None:
    """Those of a rotation: otherwise, one that leaves after a run that failed is not reset."""
    metal = {"name": "metal", "machines": [METAL_1]}
    rotated = run(
        {"rotation": {"sshKey": 2, "hostKeys": 2}, "workerPools": [metal]}, existing=NODES
    )
    steps = {METAL_1["name"]: ["ssh-key"]}
    steps |= {name: ["ssh-key", "show-host-key"] for name in NODES}
    for name, keys in steps.items():
        for step in keys:
            shown = rotated.one("local:Command", f"{name}-{step}")
            assert rotated.waits_for(command(rotated, f"{name}-membership"), shown)


def test_a_node_joins_when_its_drain_on_the_same_gateway_has_ended(fresh: Run) -> None:
    join = command(fresh, "demo-worker-0-join").inputs["create"]
    drain = command(fresh, "demo-worker-0-membership").inputs["delete"]
    lock = "exec 9>/run/lock/openstack-kubernetes-demo-worker-0-membership;"
    assert lock in join
    assert lock in drain


def test_a_dead_server_is_stopped_between_its_drain_and_its_end_but_not_on_destroy(
    fresh: Run,
) -> None:
    for name in NODES:
        fence = fresh.one("local:Command", f"{name}-fence")
        assert fence.inputs["delete"].endswith("commands.fence")
        assert fence.inputs["triggers"] == [f"{name}-id"]
        variables = fence.inputs["environment"]
        assert (variables["NODE"], variables["PROVIDER_ID"]) == (name, f"openstack:///{name}-id")
        assert fresh.outputs["apiEndpoint"] in variables["KUBECONFIG_TEXT"]
        assert fence.delete_before_replace
        assert fence.deleted_with == fresh.one("network:Network", "demo").urn
        # What depends on something is deleted before it.
        assert fresh.waits_for(command(fresh, f"{name}-membership"), fence)
        # A machine in its place must not join earlier: the fence deletes a Node of that name.
        assert fresh.waits_for(command(fresh, f"{name}-configure"), fence)
        assert fresh.waits_for(fence, server(fresh, name))
        for gateway in GATEWAYS:
            handover = fresh.one("local:Command", f"{gateway}-handover")
            assert fresh.waits_for(fence, handover)


def test_a_gateway_hands_over_before_its_server_goes_but_not_on_destroy(fresh: Run) -> None:
    for name in GATEWAYS:
        handover = fresh.one("local:Command", f"{name}-handover")
        assert handover.inputs["delete"].endswith("commands.gateway_handover")
        assert handover.inputs["triggers"] == [f"{name}-id"]
        assert handover.inputs["environment"]["SERVER_ID"] == f"{name}-id"
        assert handover.inputs["environment"]["OTHERS"] == "1"
        assert handover.delete_before_replace
        assert handover.deleted_with == fresh.one("network:Network", "demo").urn
        assert fresh.waits_for(handover, command(fresh, f"{name}-configure"))


def test_a_gateway_stays_while_a_node_is_drained_through_it(fresh: Run) -> None:
    # What depends on something is deleted before it.
    for gateway, node in itertools.product(GATEWAYS, NODES):
        handover = fresh.one("local:Command", f"{gateway}-handover")
        assert fresh.waits_for(command(fresh, f"{node}-membership"), handover)


def test_the_only_gateway_hands_over_to_no_one() -> None:
    handover = run({"gatewayCount": 1}).one("local:Command", "demo-gateway-0-handover")
    assert handover.inputs["environment"]["OTHERS"] == "0"


def test_a_pool_says_how_many_of_its_nodes_may_be_unhealthy(fresh: Run) -> None:
    worker = node_env(command(fresh, "demo-worker-0-membership"))
    assert (worker["POOL"], worker["MAX_UNHEALTHY"]) == ("worker", "10%")
    assert "MAX_UNHEALTHY" not in node_env(command(fresh, "demo-control-plane-0-membership"))
    more = run({"worker": {"maxUnhealthy": 3}})
    assert node_env(command(more, "demo-worker-0-membership"))["MAX_UNHEALTHY"] == "3"
