"""Argo CD's cluster Secrets: what they hold, when they are renewed, and when they go."""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode, urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest

from commands.fleet import accounts
from commands.fleet.__main__ import main
from commands.fleet.logins import object_name
from tests.unit.fleet import Fleet
from tests.unit.kubernetes_objects import Objects

DOWN = "https://127.0.0.1:1"
SECRETS = "/api/v1/namespaces/argocd/secrets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVERYWHERE = f"{RBAC}/clusterrolebindings/openstack-kubernetes-fleet:argocd"
BINDING = "rolebindings/openstack-kubernetes-fleet:argocd"
USER = "system:serviceaccount:openstack-kubernetes-fleet:argocd"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fleet", "argocd", *arguments])
    return main()


def data(admin: Objects, name: str) -> dict[str, str]:
    """The data of the Secret about a cluster."""
    found = admin.kept[f"{SECRETS}/fleet-{name}"]["data"]
    return {key: b64decode(text).decode() for key, text in found.items()}


def token(admin: Objects, name: str) -> str:
    found: str = json.loads(data(admin, name)["config"])["bearerToken"]
    return found


def claims(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(urlsafe_b64decode(text.split(".")[1] + "=="))
    return found


@pytest.fixture
def admin(fleet: Fleet) -> Objects:
    """The admin cluster, with Argo CD's namespace."""
    made = Objects("argocd")
    fleet.api("admin", made.handler())
    return made


@pytest.fixture
def shop(fleet: Fleet) -> Objects:
    """Another cluster."""
    made = Objects("cart", "kube-system")
    fleet.api("shop", made.handler())
    return made


def later(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Let so many hours pass for the command."""

    class Later(accounts.datetime):  # type: ignore[misc, name-defined]
        @classmethod
        def now(cls, zone: Any) -> Any:  # noqa: ANN401
            return cls.fromtimestamp(time.time() + hours * 3600, zone)

    monkeypatch.setattr(accounts, "datetime", Later)


def test_each_cluster_but_its_own_gets_a_secret_with_a_token_and_no_key(
    fleet: Fleet,
    admin: Objects,
    shop: Objects,
    pem: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch) == 0
    assert list(admin.below(SECRETS)) == ["fleet-shop"]
    labels = admin.kept[f"{SECRETS}/fleet-shop"]["metadata"]["labels"]
    assert labels["argocd.argoproj.io/secret-type"] == "cluster"
    found = data(admin, "shop")
    assert (found["name"], found["server"].startswith("https://127.0.0.1:")) == ("shop", True)
    config = json.loads(found["config"])
    assert b64decode(config["tlsClientConfig"]["caData"]) == pem.read_bytes()
    assert shop.tokens == {config["bearerToken"]: USER}
    assert set(config) == {"bearerToken", "tlsClientConfig"}
    life = claims(config["bearerToken"])
    assert life["exp"] - life["iat"] == 24 * 3600
    binding = shop.kept[EVERYWHERE]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("ClusterRole", "admin")
    assert admin.applied_by == shop.applied_by == {"openstack-kubernetes-fleet"}
    out, err = capsys.readouterr()
    assert out.startswith("shop: a new token expires ")
    assert config["bearerToken"].split(".")[1] not in out + err


def test_its_own_cluster_can_be_named_too(admin: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "admin") == 0
    assert data(admin, "admin")["server"] == "https://kubernetes.default.svc"


def test_a_token_is_kept_until_half_of_its_life_is_over(
    admin: Objects, shop: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch)
    first = token(admin, "shop")
    later(monkeypatch, 11.9)
    run(monkeypatch)
    assert token(admin, "shop") == first
    later(monkeypatch, 12.1)
    run(monkeypatch)
    assert token(admin, "shop") != first
    assert list(shop.tokens) == [first, token(admin, "shop")]


def test_half_of_the_life_that_the_api_server_allows_counts(
    fleet: Fleet,
    admin: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet.api("shop", Objects(longest=3600).handler())
    run(monkeypatch, "--hours", "24")
    first = token(admin, "shop")
    run(monkeypatch, "--hours", "24")
    assert token(admin, "shop") == first
    later(monkeypatch, 0.6)
    run(monkeypatch, "--hours", "24")
    assert token(admin, "shop") != first
    ends = time.strftime("%Y-%m-%d %H:%M", time.gmtime(claims(first)["exp"]))
    assert f"shop: a new token expires {ends} UTC" in capsys.readouterr().out


@pytest.mark.parametrize("why", ["another life", "refused", "another account", "unreadable"])
def test_a_token_that_is_of_no_use_is_replaced_at_once(
    admin: Objects, shop: Objects, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    run(monkeypatch)
    first = token(admin, "shop")
    if why == "refused":
        shop.tokens.clear()
    if why == "another account":
        shop.tokens[first] = "system:serviceaccount:default:argocd"
    if why == "unreadable":
        admin.kept[f"{SECRETS}/fleet-shop"]["data"]["config"] = "e30="
    run(monkeypatch, "--hours", "8" if why == "another life" else "24")
    second = token(admin, "shop")
    assert shop.tokens[second] == USER
    assert claims(second)["jti"] != claims(first)["jti"] or why == "refused"


def test_a_cluster_that_is_down_is_a_line_and_keeps_its_secret(
    fleet: Fleet,
    admin: Objects,
    shop: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = Objects()
    fleet.api("other", other.handler())
    run(monkeypatch)
    before = token(admin, "other")
    fleet.stack("other", DOWN)
    fleet.sealed("sealed")
    fleet.empty("empty")
    capsys.readouterr()
    assert run(monkeypatch, "--remove-gone") == 1
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in err.splitlines()] == ["other", "sealed"]
    assert "other: its API does not answer" in err
    assert "incorrect passphrase" in err
    assert "shop: its token expires " in out
    assert "empty: left out: empty has no cluster" in out
    assert token(admin, "other") == before


def test_the_secret_of_a_cluster_that_is_gone_is_removed_only_if_that_is_wanted(
    fleet: Fleet,
    admin: Objects,
    shop: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("destroyed", "removed"):
        fleet.api(name, Objects().handler())
    admin.kept[f"{SECRETS}/by-hand"] = {"metadata": {"name": "by-hand"}}
    run(monkeypatch)
    fleet.empty("destroyed")
    fleet.gone("removed")
    capsys.readouterr()
    assert run(monkeypatch) == 0
    out = capsys.readouterr().out
    assert (
        "destroyed: destroyed has no cluster: it never came up, or it was destroyed; `--re" in out
    )
    assert "removed: its stack is gone; `--remove-gone` removes the Secret fleet-removed" in out
    # That of a cluster that is not named is no failure, one that is named is.
    assert run(monkeypatch, "shop") == 0
    assert "removed: its stack is gone" in capsys.readouterr().out
    assert run(monkeypatch, "destroyed") == 1
    capsys.readouterr()
    assert len(admin.below(SECRETS)) == 4
    # Also when only one is named.
    assert run(monkeypatch, "--remove-gone", "shop") == 0
    assert "fleet-destroyed" in admin.below(SECRETS)
    assert run(monkeypatch, "--remove-gone") == 0
    assert set(admin.below(SECRETS)) == {"by-hand", "fleet-shop"}


@pytest.mark.parametrize("other", ["project", "backend"])
def test_a_stack_of_the_same_name_elsewhere_keeps_its_secret(
    fleet: Fleet,
    admin: Objects,
    shop: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other: str,
) -> None:
    fleet.write("whoami---json-none", {"url": "s3://states"})
    run(monkeypatch, "admin", "shop")
    before = admin.below(SECRETS)["fleet-shop"]
    if other == "project":
        fleet.write("Pulumi.yaml", {"name": "another"})
    else:
        fleet.write("whoami---json-none", {"url": "s3://another"})
    capsys.readouterr()
    assert run(monkeypatch, "admin") == 0
    assert run(monkeypatch, "shop") == 1
    said = capsys.readouterr().err
    assert said.startswith("shop: the Secret fleet-shop there is for the stack of this name of ")
    fleet.gone("shop")
    assert run(monkeypatch, "--remove-gone") == 0
    assert admin.below(SECRETS)["fleet-shop"] == before


def test_a_colleague_in_pulumi_cloud_keeps_the_same_secrets(
    fleet: Fleet, admin: Objects, shop: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("me", "ci"):
        fleet.write("whoami---json-none", {"url": f"https://app.pulumi.com/{user}"})
        assert run(monkeypatch) == 0


def test_other_rights_take_the_place_of_those_before(
    admin: Objects, shop: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add_role("edit")
    run(monkeypatch)
    run(monkeypatch, "--cluster-role", "edit")
    assert shop.kept[EVERYWHERE]["roleRef"]["name"] == "edit"
    run(monkeypatch, "--cluster-role", "edit", "--only-in", "cart")
    assert EVERYWHERE not in shop.kept
    [path] = [path for path in shop.kept if path.endswith(BINDING)]
    assert path == f"{RBAC}/namespaces/cart/{BINDING}"
    found = data(admin, "shop")
    assert (found["namespaces"], found["clusterResources"]) == ("cart", "false")
    run(monkeypatch)
    assert path not in shop.kept
    assert shop.kept[EVERYWHERE]["roleRef"]["name"] == "admin"
    assert "namespaces" not in data(admin, "shop")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster-role", "deployer"], "shop: it has no ClusterRole deployer"),
        (["--only-in", "carts"], "shop: it has no namespace carts"),
        (["--namespace", "argo"], "admin has no namespace argo"),
        (["--admin", "chief"], "there is no admin cluster chief: name it with `--admin`"),
        (["nowhere"], "nowhere: pulumi stack output --json --show-secrets --stack nowhere"),
    ],
)
def test_what_does_not_exist_is_named_and_no_one_gets_a_token(
    admin: Objects,
    shop: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    assert run(monkeypatch, *arguments) == 1
    assert said in capsys.readouterr().err
    assert not shop.tokens
    assert not admin.below(SECRETS)


def test_an_admin_cluster_that_is_down_is_one_line(
    fleet: Fleet,
    shop: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet.stack("admin", DOWN)
    assert run(monkeypatch) == 1
    assert capsys.readouterr().err.startswith("admin: its API does not answer")
    assert not shop.tokens


@pytest.mark.parametrize("hours", ["0", "-3", "8761", "day"])
def test_a_life_is_hours(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    hours: str,
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, f"--hours={hours}")
    assert "--hours" in capsys.readouterr().err


def test_names_of_stacks_that_no_object_can_have_stay_distinct() -> None:
    stacks = ["shop", "Shop", "team/shop", "team-shop", "shop_1", "shop.1", "-", "_"]
    made = [object_name(each) for each in stacks]
    assert len({*made}) == len(stacks)
    assert made[0] == "fleet-shop"
    assert all(each == each.lower() and each.strip("-") == each for each in made)
