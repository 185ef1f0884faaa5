"""`fleet add`: the Stack and its Secret in the admin cluster, from a stack's configuration."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloud.login import LOGIN_KEYS
from commands.fleet.__main__ import main
from tests.unit.fleet import Fleet
from tests.unit.kubernetes_objects import Objects

IMAGE = "registry.example.org/openstack-kubernetes:0.1.0"
BUCKET = "s3://state?region=us-east-1"
SECRET = "/api/v1/namespaces/clusters/secrets/shop"
STACK = "/apis/pulumi.com/v1/namespaces/clusters/stacks/shop"
PROJECT = "openstack-kubernetes"
SECURE = {"secure": "v1:cipher"}
# What the CLI tells: the project's defaults, too.
LISTED = {
    "openstack:cloud": {"value": "lab"},
    "openstack:password": {"value": "of the user", "secret": True},
    f"{PROJECT}:backupSecretKey": {"value": "of the bucket", "secret": True},
    f"{PROJECT}:workerCount": {"value": "2"},
    f"{PROJECT}:kubernetesVersion": {"value": "v1.36.3"},
}
CONFIG = {
    "openstack:cloud": "lab",
    "openstack:maxRetries": "5",
    "openstack:cacertFile": "/home/me/ca.pem",
    f"{PROJECT}:workerCount": 2,
    f"{PROJECT}:allowedCidrs": ["192.0.2.0/24"],
    f"{PROJECT}:backupSecretKey": SECURE,
}
CLOUDS = """\
clouds:
  lab:
    auth_type: v3applicationcredential
    auth: {{auth_url: "https://keystone.example.org/v3", application_credential_id: id,
      application_credential_secret: of the cloud}}
    region_name: RegionOne
    cacert: {folder}/ca.pem
  theirs:
    auth: {{auth_url: "https://keystone.example.org/v3", password: of someone else}}
"""
# Nothing of these may be shown.
SECRETS = ("of the bucket", "of the cloud", "of the state", "of the key", "of someone else")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fleet", "add", *arguments])
    return main()


def add(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    return run(monkeypatch, "shop", "--image", IMAGE, *arguments)


@pytest.fixture
def admin(fleet: Fleet) -> Objects:
    """The admin cluster, with the operator."""
    made = Objects("clusters")
    made.kept["/apis/pulumi.com/v1"] = {"kind": "APIResourceList"}
    fleet.api("admin", made.handler())
    return made


@pytest.fixture(autouse=True)
def checkout(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the configuration of `shop`, and what it logs in with."""
    folder = fleet.folder
    monkeypatch.chdir(folder)
    for name in (
        "OS_CLOUD",
        "PULUMI_ACCESS_TOKEN",
        "AWS_CA_BUNDLE",
        "PULUMI_BACKEND_URL",
        "PULUMI_CONFIG_PASSPHRASE_FILE",
        "OS_CACERT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(folder / "clouds.yaml"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of the state")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the key")
    fleet.write("whoami---json-none", {"url": BUCKET})
    (folder / "clouds.yaml").write_text(CLOUDS.format(folder=folder))
    (folder / "ca.pem").write_text("the CA of the cloud")
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": PROJECT}))
    configure(folder)
    return folder


def configure(folder: Path, **more: Any) -> None:
    config = {**CONFIG, **{f"{PROJECT}:{key}": value for key, value in more.items()}}
    text = yaml.safe_dump({"encryptionsalt": "v1:salt", "config": config})
    (folder / "Pulumi.shop.yaml").write_text(text)
    tell(folder, config)


def tell(folder: Path, config: Mapping[str, Any]) -> None:
    """Have the CLI tell these values, secrets in the clear, and the project's defaults."""
    # LISTED has what it logs in with.
    login = {f"openstack:{key}" for key in LOGIN_KEYS}
    told = {key: _listed(value) for key, value in config.items() if key not in login}
    (folder / "config---json-shop").write_text(json.dumps({**told, **LISTED}))


def _listed(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return {"value": value}
    text = json.dumps(value)
    return {"value": text, **({} if isinstance(value, int) else {"objectValue": value})}


def data(admin: Objects) -> dict[str, str]:
    found = admin.kept[SECRET]["data"]
    return {key: b64decode(text).decode() for key, text in found.items()}


def spec(admin: Objects) -> dict[str, Any]:
    found: dict[str, Any] = admin.kept[STACK]["spec"]
    return found


def test_the_stack_has_the_files_values_and_no_default(
    admin: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert add(monkeypatch) == 0
    assert spec(admin)["config"] == {
        "openstack:cloud": "lab",
        "openstack:maxRetries": "5",
        "workerCount": 2,
        "allowedCidrs": ["192.0.2.0/24"],
    }
    assert (spec(admin)["stack"], spec(admin)["backend"]) == ("shop", BUCKET)
    assert spec(admin)["workspaceTemplate"]["spec"]["image"] == IMAGE
    assert admin.applied_by == {"openstack-kubernetes-fleet"}


def test_values_are_those_that_pulumi_reads(
    admin: Objects, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """YAML 1.1 reads 1320, True and a date in their place."""
    lines = {"startTime": "22:00", "debug": "on", "since": "2026-11-22", "days": 5}
    written = "".join(f"    {key}: {value}\n" for key, value in lines.items())
    text = f"encryptionsalt: v1:salt\nconfig:\n  {PROJECT}:addons:\n{written}"
    (checkout / "Pulumi.shop.yaml").write_text(f"{text}  {PROJECT}:cloudChecks: off\n")
    tell(checkout, {f"{PROJECT}:addons": lines, f"{PROJECT}:cloudChecks": "off"})
    assert add(monkeypatch) == 0
    assert spec(admin)["config"] == {
        "openstack:cloud": "lab",
        "addons": lines,
        "cloudChecks": "off",
    }


def test_a_key_may_do_without_the_project_as_for_pulumi(
    checkout: Path, admin: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert add(monkeypatch) == 0
    whole = spec(admin)
    file = checkout / "Pulumi.shop.yaml"
    file.write_text(file.read_text().replace(f"{PROJECT}:", ""))
    assert add(monkeypatch) == 0
    assert spec(admin) == whole
    assert whole["config"]["workerCount"] == 2


def test_all_that_is_secret_is_in_the_secret_and_nowhere_else(
    admin: Objects, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(monkeypatch)
    add(monkeypatch, "--print")
    clouds = yaml.safe_load(data(admin).pop("clouds.yaml"))["clouds"]
    assert data(admin).keys() - {"clouds.yaml"} == {
        "PULUMI_CONFIG_PASSPHRASE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "config.backupSecretKey",
        "cacert.pem",
    }
    assert data(admin)["config.backupSecretKey"] == "of the bucket"
    assert data(admin)["cacert.pem"] == "the CA of the cloud"
    assert list(clouds) == ["lab"]
    assert clouds["lab"]["auth"]["application_credential_secret"] == "of the cloud"
    assert clouds["lab"]["cacert"] == "/etc/openstack/cacert.pem"
    out, err = capsys.readouterr()
    shown = json.dumps(admin.kept[STACK]) + out + err
    assert [each for each in SECRETS if each in shown] == []
    # Each variable and key leads to one in the Secret.
    references = {**spec(admin)["envRefs"], **spec(admin)["secretsRef"]}
    assert {each["secret"]["key"] for each in references.values()} <= data(admin).keys()
    [volume] = spec(admin)["workspaceTemplate"]["spec"]["podTemplate"]["spec"]["volumes"]
    assert [each["key"] for each in volume["secret"]["items"]] == ["cacert.pem", "clouds.yaml"]


def test_what_is_printed_is_what_is_applied(
    admin: Objects, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(monkeypatch, "--print") == 0
    assert STACK not in admin.kept
    assert SECRET not in admin.kept
    printed = yaml.safe_load(capsys.readouterr().out)
    add(monkeypatch)
    applied = spec(admin)
    del applied["workspaceTemplate"]["spec"]["podTemplate"]["metadata"]
    assert printed["spec"] == applied


def test_a_pod_is_made_again_only_for_another_secret(
    admin: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version() -> str:
        metadata = spec(admin)["workspaceTemplate"]["spec"]["podTemplate"]["metadata"]
        found: str = metadata["annotations"]["openstack-kubernetes-secret"]
        return found

    add(monkeypatch)
    first = version()
    add(monkeypatch)
    assert version() == first
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "another one")
    add(monkeypatch)
    assert version() != first


def test_it_is_repaired_as_often_as_asked_for(
    admin: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(monkeypatch, "--resync", "60")
    assert spec(admin)["refresh"]
    assert spec(admin)["continueResyncOnCommitMatch"]
    assert spec(admin)["resyncFrequencySeconds"] == 60
    add(monkeypatch, "--resync", "0")
    assert not {"continueResyncOnCommitMatch", "resyncFrequencySeconds"} & spec(admin).keys()


def test_nothing_in_it_is_empty_for_the_operator_would_remove_that(
    admin: Objects, monkeypatch: pytest.MonkeyPatch, fleet: Fleet, checkout: Path
) -> None:
    cloud = {"openstack:cloud": "lab"}
    fleet.write("config---json-shop", {key: {"value": value} for key, value in cloud.items()})
    file = checkout / "Pulumi.shop.yaml"
    file.write_text(yaml.safe_dump({"encryptionsalt": "v1:salt", "config": cloud}))
    assert add(monkeypatch, "--resync", "0") == 0
    assert [key for key, value in spec(admin).items() if not value] == []
    assert "secretsRef" not in spec(admin)


def test_a_deleted_stack_is_destroyed_by_the_program(
    admin: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(monkeypatch)
    assert spec(admin)["destroyOnFinalize"]
    assert spec(admin)["runProgram"]


def test_the_passphrase_and_the_backends_ca_may_be_in_files(
    admin: Objects, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    for name, text in (("phrase", "from a file\n"), ("store-ca.crt", "the CA of the store")):
        (checkout / name).write_text(text)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", str(checkout / "phrase"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(checkout / "store-ca.crt"))
    add(monkeypatch)
    assert data(admin)["PULUMI_CONFIG_PASSPHRASE"] == "from a file"
    assert data(admin)["backend-ca.pem"] == "the CA of the store"
    bundle = spec(admin)["envRefs"]["AWS_CA_BUNDLE"]
    assert bundle["literal"]["value"] == "/etc/openstack/backend-ca.pem"


def test_another_secrets_provider_needs_no_passphrase(
    admin: Objects, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    file = checkout / "Pulumi.shop.yaml"
    file.write_text("secretsprovider: hashivault://key\n" + file.read_text())
    assert add(monkeypatch) == 0
    assert spec(admin)["secretsProvider"] == "hashivault://key"
    assert "PULUMI_CONFIG_PASSPHRASE" not in data(admin)


@pytest.mark.parametrize(
    ("backend", "salted", "provider"),
    [
        ("https://app.pulumi.com/me", False, "default"),
        ("https://app.pulumi.com/me", True, "passphrase"),
        (BUCKET, False, "passphrase"),
    ],
)
def test_the_default_secrets_provider_of_pulumi_cloud_needs_no_passphrase(
    admin: Objects,
    fleet: Fleet,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    salted: bool,
    provider: str,
) -> None:
    fleet.write("whoami---json-none", {"url": backend})
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "of me")
    if not salted:
        (checkout / "Pulumi.shop.yaml").write_text(yaml.safe_dump({"config": CONFIG}))
    if provider == "default":
        monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    assert add(monkeypatch) == 0
    assert spec(admin)["secretsProvider"] == provider
    assert ("PULUMI_CONFIG_PASSPHRASE" in data(admin)) == (provider == "passphrase")


@pytest.mark.parametrize(
    ("told", "named", "backend"),
    [
        ("https://app.pulumi.com/me", None, "https://api.pulumi.com"),
        ("https://app.example.org/me", None, "https://api.example.org"),
        ("", "https://pulumi.example.org", "https://pulumi.example.org"),
        (BUCKET, "s3://another", BUCKET),
    ],
)
def test_the_backend_is_the_one_that_the_cli_logs_in_to(
    admin: Objects,
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    told: str,
    named: str | None,
    backend: str,
) -> None:
    fleet.write("whoami---json-none", {"url": told})
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "of me")
    if named is not None:
        monkeypatch.setenv("PULUMI_BACKEND_URL", named)
    assert add(monkeypatch) == 0
    assert spec(admin)["backend"] == backend


def test_a_backend_that_the_cli_does_not_tell_must_be_named(
    admin: Objects,
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet.write("whoami---json-none", {"url": ""})
    assert add(monkeypatch) == 1
    assert "set PULUMI_BACKEND_URL" in capsys.readouterr().err
    assert STACK not in admin.kept


def test_what_was_changed_in_the_object_does_not_outlive_the_next_add(
    admin: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert add(monkeypatch) == 0
    assert admin.merged == []
    # By someone who then did not destroy it.
    spec(admin)["config"] |= {"deletionProtection": False, "workerCount": 7}
    assert add(monkeypatch) == 0
    assert admin.merged == [(STACK, {"spec": {"config": {"deletionProtection": None}}})]
    assert spec(admin)["config"]["workerCount"] == 2


def test_the_cluster_of_another_organization_is_not_pushed_aside(
    admin: Objects,
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert add(monkeypatch) == 0
    before = json.dumps(admin.kept)
    (fleet.folder / "config---json-theirs").mkdir()
    folder = fleet.folder
    (folder / "config---json-shop").rename(folder / "config---json-theirs/shop")
    assert run(monkeypatch, "theirs/shop", "--image", IMAGE) == 1
    assert f"the Stack shop there is shop of the project {PROJECT} in " in capsys.readouterr().err
    assert json.dumps(admin.kept) == before


@pytest.mark.parametrize("other", ["project", "backend"])
def test_nor_is_one_of_the_same_name_of_another_project_or_backend(
    admin: Objects,
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other: str,
) -> None:
    assert add(monkeypatch) == 0
    before = json.dumps(admin.kept)
    if other == "project":
        fleet.write("Pulumi.yaml", {"name": "another"})
    else:
        fleet.write("whoami---json-none", {"url": "s3://another"})
    assert add(monkeypatch) == 1
    said = capsys.readouterr().err
    assert f"the Stack shop there is shop of the project {PROJECT} in {BUCKET}, which" in said
    assert json.dumps(admin.kept) == before


@pytest.mark.parametrize(
    "why", ["inside", "folder", "passphrase", "keys", "token", "file", "CA", "cloud"]
)
def test_what_the_operator_cannot_run_is_refused_before_anything_is_made(
    admin: Objects,
    fleet: Fleet,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    why: str,
) -> None:
    said = {
        "inside": f"{PROJECT}:addons of Pulumi.shop.yaml has a secret inside",
        "folder": "the state is in a folder, file:///state",
        "passphrase": "set PULUMI_CONFIG_PASSPHRASE",
        "keys": f"log in to {BUCKET} with what is in the environment here: set AWS_ACCESS_KEY_ID",
        "token": "set PULUMI_ACCESS_TOKEN",
        "file": "Pulumi.shop.yaml is missing: run this where you run `pulumi up`",
        "CA": "cannot be read",
        "cloud": "no such entry in clouds.yaml; did you mean lab?",
    }
    match why:
        case "inside":
            configure(checkout, addons={"monitoring": {"alertmanager": [{"url": SECURE}]}})
        case "folder":
            fleet.write("whoami---json-none", {"url": "file:///state"})
        case "passphrase":
            monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
        case "keys":
            # As with a profile of AWS.
            monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        case "token":
            # As after `pulumi login`.
            fleet.write("whoami---json-none", {"url": "https://app.pulumi.com/me"})
        case "file":
            (checkout / "Pulumi.shop.yaml").unlink()
        case "CA":
            (checkout / "ca.pem").unlink()
        case "cloud":
            monkeypatch.setitem(LISTED, "openstack:cloud", {"value": "lap"})
            configure(checkout)
    assert add(monkeypatch) == 1
    assert said[why] in capsys.readouterr().err
    assert {SECRET, STACK}.isdisjoint(admin.kept)


@pytest.mark.parametrize("name", ["Shop", "1shop", "shop_1", "shop-", "s" * 43])
def test_a_name_that_no_stack_object_can_have_is_refused(
    admin: Objects, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(monkeypatch, name, "--image", IMAGE) == 1
    assert f"{name} cannot be the name of a Stack" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["/apis/pulumi.com/v1", "/api/v1/namespaces/clusters"])
def test_an_admin_cluster_without_an_operator_gets_no_secret(
    admin: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str,
) -> None:
    del admin.kept[missing]
    assert add(monkeypatch) == 1
    assert "admin has no operator: set addons.operator.enabled" in capsys.readouterr().err
    assert SECRET not in admin.kept


def test_the_admin_cluster_may_be_in_another_backend(
    admin: Objects,
    fleet: Fleet,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = checkout / "stack-output-admin"
    file = checkout / "kubeconfig"
    file.write_text(json.loads(outputs.read_text())["kubeconfig"])
    outputs.unlink()
    assert add(monkeypatch) == 1
    assert add(monkeypatch, "--kubeconfig", str(file)) == 0
    assert STACK in admin.kept
    file.unlink()
    capsys.readouterr()
    assert add(monkeypatch, "--kubeconfig", str(file)) == 1
    assert f"{file}: cannot be read: No such file" in capsys.readouterr().err


def test_an_admin_cluster_that_is_down_is_one_line(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.stack("admin", "https://127.0.0.1:1")
    assert add(monkeypatch) == 1
    assert capsys.readouterr().err.startswith("admin: its API does not answer")


@pytest.mark.parametrize("seconds", ["59", "-1", "often"])
def test_a_time_that_the_operator_does_not_keep_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    with pytest.raises(SystemExit):
        add(monkeypatch, f"--resync={seconds}")
    assert "--resync" in capsys.readouterr().err
