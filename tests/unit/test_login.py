"""The login at the cloud: the settings are those of the OpenStack provider, in its order."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from openstack.connection import Connection

from cloud.endpoint import endpoint
from cloud.login import CloudLogin, connect, login, login_variables, resolve
from config.errors import ConfigError
from tests.unit.http_servers import Silent, served

CLOUDS = """
clouds:
  lab:
    region_name: one
    cacert: {ca}
    auth: {{auth_url: https://cloud.example.org:5000/v3, username: me, password: hunter2}}
"""


def keys(**values: str) -> Callable[[str], str | None]:
    """The keys of the OpenStack provider in a stack's configuration."""
    return values.get


def test_a_named_cloud_comes_before_everything_else() -> None:
    got = login(keys(cloud="mine"), {"OS_CLOUD": "other", "OS_AUTH_URL": "https://x"})
    assert (got.key, got.value) == ("openstack:cloud", "mine")
    assert got.settings == {"cloud": "mine"}


def test_the_stack_comes_before_the_environment() -> None:
    got = login(
        keys(authUrl="https://a", applicationCredentialId="id"),
        {"OS_AUTH_URL": "https://b", "OS_APPLICATION_CREDENTIAL_SECRET": "s"},
    )
    assert got.settings["auth_type"] == "v3applicationcredential"
    assert got.settings["auth"] == {
        "auth_url": "https://a",
        "application_credential_id": "id",
        "application_credential_secret": "s",
    }


def test_a_password_has_the_default_domain() -> None:
    env = {"OS_AUTH_URL": "https://a", "OS_USERNAME": "u", "OS_PROJECT_NAME": "p"}
    auth = login(keys(), env).settings["auth"]
    assert (auth["user_domain_id"], auth["project_domain_id"]) == ("default", "default")


CREDENTIAL = {"application_credential_id": "id", "application_credential_secret": "s"}
USER = {"username": "u", "user_domain_name": "Corp"}
PROJECT = {"project_id": "p"}


@pytest.mark.parametrize(
    ("entry", "variables", "kind", "left"),
    [
        (CREDENTIAL, {}, "v3applicationcredential", CREDENTIAL),
        ({**CREDENTIAL, **PROJECT}, {}, "v3applicationcredential", CREDENTIAL),
        (
            {"token": "t", **PROJECT, "domain_name": "Corp"},
            {},
            "token",
            {"token": "t", **PROJECT},
        ),
        (
            {**USER, **PROJECT, "password": "hunter2"},
            {"OS_TOKEN": "t"},
            "token",
            {"token": "t", **PROJECT},
        ),
        (
            {**USER, **PROJECT, "password": "hunter2"},
            {},
            "password",
            {**USER, **PROJECT, "password": "hunter2"},
        ),
    ],
    ids=["a credential", "and a project", "a token", "a token before a password", "a password"],
)
@pytest.mark.parametrize("named", [True, False])
def test_the_method_follows_from_what_is_set_as_for_the_provider(
    clouds: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry: dict[str, str],
    variables: dict[str, str],
    kind: str,
    left: dict[str, str],
    named: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    address = {"auth_url": "https://a"}
    if named:
        clouds.write_text(json.dumps({"clouds": {"lab": {"auth": {**address, **entry}}}}))
        found = resolve(login(keys(cloud="lab"), {}))
    else:
        variables |= {f"OS_{key.upper()}": value for key, value in (address | entry).items()}
        found = resolve(login(keys(), variables))
    assert found.config["auth_type"] == kind
    assert found.get_auth_args() == {**address, **left}


def test_a_credential_is_found_by_its_name_and_its_user() -> None:
    credential = {"applicationCredentialName": "n", "applicationCredentialSecret": "s"}
    given = keys(authUrl="https://a", userName="u", tenantName="t", **credential)
    auth = resolve(login(given, {})).get_auth_args()
    assert auth["user_domain_id"] == "default"
    assert "project_name" not in auth


def test_a_region_of_the_stack_comes_before_that_of_the_entry(clouds: Path) -> None:
    found = resolve(login(keys(cloud="lab", region="two"), {}))
    assert found.get_region_name() == "two"


def test_a_login_that_no_method_takes_is_told(clouds: Path) -> None:
    entry = '{auth_type: v3oidcclientcredentials, auth: {auth_url: "https://a", username: u}}'
    clouds.write_text(f"clouds: {{lab: {entry}}}")
    with pytest.raises(ConfigError, match=r"openstack:cloud = lab: cannot be used: "):
        resolve(login(keys(cloud="lab"), {}))


def test_a_domain_for_all_is_that_of_user_and_project() -> None:
    env = {"OS_AUTH_URL": "https://a", "OS_USERNAME": "u", "OS_PROJECT_NAME": "p"}
    auth = login(keys(domainName="Corp"), env).settings["auth"]
    assert (auth["user_domain_name"], auth["project_domain_name"]) == ("Corp", "Corp")
    assert not {"user_domain_id", "project_domain_id"} & auth.keys()


def test_the_certificate_check_can_be_switched_off() -> None:
    assert login(keys(), {"OS_CLOUD": "x", "OS_INSECURE": "true"}).settings["verify"] is False


@pytest.mark.parametrize(
    "stack",
    [
        {"cloud": "mine"},
        {
            "authUrl": "https://a",
            "userName": "u",
            "password": "p",
            "tenantName": "t",
            "defaultDomain": "d",
            "insecure": "true",
            "cacertFile": "ca.pem",
        },
        {
            "authUrl": "https://a",
            "applicationCredentialId": "id",
            "applicationCredentialSecret": "s",
        },
        {"authUrl": "https://a", "token": "t", "tenantId": "i", "region": "r"},
    ],
)
def test_a_program_outside_of_the_stack_logs_in_the_same_way(stack: dict[str, str]) -> None:
    outside = login(keys(), login_variables(keys(**stack)))
    assert outside == login(keys(**stack), {})


def test_nothing_at_all_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"openstack:cloud: set it .* or set OS_CLOUD"):
        resolve(login(keys(), {}))


def test_an_entry_without_an_address_is_refused_before_the_login(
    clouds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OS_AUTH_URL", raising=False)
    clouds.write_text("clouds: {lab: {auth_type: none, auth: {endpoint: 'https://a'}}}")
    with pytest.raises(ConfigError, match=r"lab: cannot be used: it has no auth_url"):
        resolve(login(keys(cloud="lab"), {}))
    clouds.write_text("clouds: {lab: {auth: {username: admin}}}")
    with pytest.raises(
        ConfigError, match=r"openstack:cloud = lab: cannot be used: .* not given: auth_url"
    ):
        resolve(login(keys(cloud="lab"), {}))


def test_without_a_file_of_clouds_it_says_where_one_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openstack.config.loader.CONFIG_FILES", [str(tmp_path / "clouds.yaml")])
    monkeypatch.delenv("OS_CLIENT_CONFIG_FILE", raising=False)
    with pytest.raises(ConfigError, match=r"there is no clouds.yaml in this folder, ~/.config"):
        resolve(login(keys(cloud="lab"), {}))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clouds:\n  lab:\n    auth:\n   password: hunter2\n", ", line 4: has a syntax error"),
        ("clouds: {lab: {auth: {password: hunter2\0}}}", ": has a syntax error; correct it"),
        ("clouds:\n", ": `clouds:` must have keys below it"),
        ("- hunter2\n", ": `clouds:` must have keys below it"),
        ("clouds: {lab: }\n", ": `clouds: lab:` must have keys below it"),
        ("clouds: {lab: {auth: hunter2}}\n", ": `clouds: lab: auth:` must have keys below it"),
    ],
)
@pytest.mark.parametrize("variable", ["OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE"])
def test_a_broken_file_of_clouds_is_told_with_its_place(
    clouds: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str, variable: str
) -> None:
    # A whole one, which openstacksdk would take instead.
    monkeypatch.setattr("openstack.config.loader.CONFIG_FILES", [str(clouds)])
    broken = clouds.with_name("broken.yaml")
    broken.write_text(text)
    monkeypatch.setenv(variable, str(broken))
    with pytest.raises(ConfigError) as caught:
        resolve(login(keys(cloud="lab"), {}))
    assert f"openstack:cloud = lab: {broken}{problem}" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_cloud_names_the_nearest(clouds: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such entry in clouds.yaml; did you mean lab\?"):
        resolve(login(keys(cloud="labb"), {}))


def test_what_an_entry_lacks_comes_from_the_environment_as_for_the_provider(
    clouds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_PASSWORD", "unused")
    monkeypatch.setenv("OS_PROJECT_NAME", "shop")
    auth = resolve(login(keys(cloud="lab"), {})).config["auth"]
    assert (auth["password"], auth["project_name"]) == ("hunter2", "shop")


def test_a_project_of_the_environment_next_to_that_of_the_entry_is_refused(
    clouds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = clouds.read_text().replace("password: hunter2", "password: a, project_name: prod")
    clouds.write_text(entry)
    monkeypatch.setenv("OS_PROJECT_NAME", "dev")
    assert resolve(login(keys(cloud="lab"), {})).config["auth"]["project_name"] == "prod"
    monkeypatch.setenv("OS_PROJECT_ID", "0123")
    with pytest.raises(ConfigError, match=r"adds OS_PROJECT_ID from the environment.*unset"):
        resolve(login(keys(cloud="lab"), {}))
    # A credential belongs to one project.
    entry = entry.replace("username: me, password: a", "application_credential_id: i")
    entry = entry.replace("region_name: one", "auth_type: v3applicationcredential")
    clouds.write_text(entry.replace(", project_name: prod", ", application_credential_secret: s"))
    auth = resolve(login(keys(cloud="lab"), {})).config["auth"]
    assert "project_id" not in auth


@pytest.mark.parametrize(
    ("stack", "variables", "told"),
    [
        ({"cacertFile": "/gone"}, {}, "openstack:cacertFile = /gone: cannot be read: No such"),
        ({}, {"OS_CERT": "/gone"}, "OS_CERT = /gone: cannot be read: No such file"),
        # The file that clouds.yaml names is another one.
        ({"cloud": "lab"}, {"OS_CACERT": "/gone"}, "OS_CACERT = /gone: .*: No such file"),
        ({"cloud": "lab", "key": "~"}, {}, "openstack:key = ~: .*: Is a directory"),
        (
            {"key": "-----BEGIN PRIVATE KEY-----\nMC4C"},
            {},
            "openstack:key: cannot be read: .*; set it to the path of a PEM",
        ),
    ],
)
def test_a_certificate_that_cannot_be_read_is_told_by_whatever_names_it(
    clouds: Path, stack: dict[str, str], variables: dict[str, str], told: str
) -> None:
    address = {"authUrl": "https://a", "userName": "u", "password": "p", "tenantName": "t"}
    with pytest.raises(ConfigError, match=told) as caught:
        resolve(login(keys(**address, **stack), variables))
    assert "MC4C" not in str(caught.value)


def test_a_certificate_of_an_entry_that_cannot_be_read_is_told(clouds: Path) -> None:
    (clouds.parent / "ca.pem").unlink()
    for use in (resolve, endpoint):
        with pytest.raises(ConfigError, match=r"cacert of lab in clouds.yaml = /.*: No such file"):
            use(login(keys(cloud="lab"), {}))
    (clouds.parent / "ca.pem").write_bytes(b"\x30\x82\xff")
    with pytest.raises(ConfigError, match=r"cannot be read: it is no text; set it to the path"):
        resolve(login(keys(cloud="lab"), {}))


def test_programs_in_the_cluster_get_no_credentials(clouds: Path) -> None:
    got = endpoint(login(keys(cloud="lab"), {}))
    assert got.auth_url == "https://cloud.example.org:5000/v3"
    assert (got.region, got.ca_certificate, got.insecure) == ("one", "PEM", False)
    assert "hunter2" not in repr(got)


def test_programs_in_the_cluster_verify_no_more_than_pulumi_does() -> None:
    variables = {"OS_AUTH_URL": "https://cloud.example.org", "OS_PASSWORD": "x"}
    assert endpoint(login(keys(), {**variables, "OS_INSECURE": "true"})).insecure
    assert not endpoint(login(keys(), variables)).insecure


@pytest.mark.parametrize("status", [429, 503])
def test_a_cloud_that_is_busy_is_asked_again(status: int) -> None:
    answers = [status, status, 200]

    class Busy(Silent):
        def do_GET(self) -> None:  # noqa: N802
            self.send_response(answers.pop(0))
            self.send_header("Retry-After", "0")
            self.end_headers()

    with served(Busy) as url:
        known = CloudLogin(
            key="openstack:authUrl",
            value=url,
            settings={"auth_type": "none", "auth": {"endpoint": url}},
        )
        answer = Connection(config=resolve(known)).object_store.get(url)
    assert (answer.status_code, answers) == (200, [])


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (401, "the cloud refuses the credentials"),
        (500, r"the cloud does not answer a login: Internal Server Error \(HTTP 500\)"),
    ],
)
def test_only_a_refusal_is_called_one(status: int, problem: str) -> None:
    class Keystone(Silent):
        def do_GET(self) -> None:  # noqa: N802
            self.send_response(200)
            self.end_headers()
            links = [{"rel": "self", "href": f"{url}/v3"}]
            version = {"id": "v3.14", "status": "stable", "links": links}
            self.wfile.write(json.dumps({"version": version}).encode())

        def do_POST(self) -> None:  # noqa: N802
            self.send_response(status)
            self.end_headers()

    with served(Keystone) as url:
        auth = {"auth_url": f"{url}/v3", "username": "a", "password": "b", "project_name": "c"}
        auth |= {"user_domain_id": "default", "project_domain_id": "default"}
        known = CloudLogin(key="openstack:authUrl", value=url, settings={"auth": auth})
        with pytest.raises(ConfigError, match=problem):
            connect(known)


@pytest.fixture
def clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ca.pem").write_text("PEM")
    file = tmp_path / "clouds.yaml"
    file.write_text(CLOUDS.format(ca=tmp_path / "ca.pem"))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
    return file
