"""The OpenStack provider's own settings, as openstacksdk takes them.

The provider takes each setting from the stack's configuration (`openstack:...`), else from an
environment variable; an entry of clouds.yaml, if one is named, comes before all others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
import yaml

from cloud.login_method import KNOWN, method, used
from config.errors import MISSING, ConfigError, Fault, nearest

if TYPE_CHECKING:
    from openstack.config.cloud_region import CloudRegion
    from openstack.connection import Connection

# Seconds that one request may take; a healthy cloud needs less than one.
_REQUEST_SECONDS = 60
# Answers of a cloud that is busy. A request is repeated after the time that the answer names, else
# after 0.5 s, then twice as long each time: 15 s in all.
_BUSY = (429, 503)
_RETRIES = 5
# Requests that reach no one may have waited for `_REQUEST_SECONDS`.
_CONNECT_RETRIES = 2

# Key in the stack's configuration, the provider's environment variables in its own order
# (terraform-provider-openstack 3.4.0, provider.go), and the name in openstacksdk.
_AUTH = (
    ("authUrl", ("OS_AUTH_URL",), "auth_url"),
    ("userName", ("OS_USERNAME",), "username"),
    ("userId", ("OS_USER_ID",), "user_id"),
    ("password", ("OS_PASSWORD",), "password"),
    ("token", ("OS_TOKEN", "OS_AUTH_TOKEN"), "token"),
    ("tenantId", ("OS_TENANT_ID", "OS_PROJECT_ID"), "project_id"),
    ("tenantName", ("OS_TENANT_NAME", "OS_PROJECT_NAME"), "project_name"),
    ("userDomainName", ("OS_USER_DOMAIN_NAME",), "user_domain_name"),
    ("userDomainId", ("OS_USER_DOMAIN_ID",), "user_domain_id"),
    ("projectDomainName", ("OS_PROJECT_DOMAIN_NAME",), "project_domain_name"),
    ("projectDomainId", ("OS_PROJECT_DOMAIN_ID",), "project_domain_id"),
    ("domainId", ("OS_DOMAIN_ID",), "domain_id"),
    ("domainName", ("OS_DOMAIN_NAME",), "domain_name"),
    (
        "applicationCredentialId",
        ("OS_APPLICATION_CREDENTIAL_ID",),
        "application_credential_id",
    ),
    (
        "applicationCredentialName",
        ("OS_APPLICATION_CREDENTIAL_NAME",),
        "application_credential_name",
    ),
    (
        "applicationCredentialSecret",
        ("OS_APPLICATION_CREDENTIAL_SECRET",),
        "application_credential_secret",
    ),
)
_OTHER = (
    ("region", ("OS_REGION_NAME",), "region_name"),
    ("endpointType", ("OS_ENDPOINT_TYPE",), "interface"),
    ("cacertFile", ("OS_CACERT",), "cacert"),
    ("cert", ("OS_CERT",), "cert"),
    ("key", ("OS_KEY",), "key"),
)
# Those of them that are files.
FILES = ("cacert", "cert", "key")
_CLOUD = ("cloud", ("OS_CLOUD",))
_INSECURE = ("insecure", ("OS_INSECURE",))
_DEFAULT_DOMAIN = ("defaultDomain", ("OS_DEFAULT_DOMAIN",))

# The provider's keys that have to do with the login.
LOGIN_KEYS = frozenset(key for key, *_ in (*_AUTH, *_OTHER, _CLOUD, _INSECURE, _DEFAULT_DOMAIN))

Lookup = Callable[[str], str | None]


@dataclass(frozen=True, kw_only=True)
class CloudLogin:
    """The settings to log in with, and the key of the stack's configuration they come from."""

    key: str
    """`openstack:cloud` or `openstack:authUrl`."""
    value: str | None
    settings: Mapping[str, Any]
    """Arguments of `OpenStackConfig.get_one`."""
    files: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The key or the variable that names each of the `FILES`; clouds.yaml names the others."""

    @property
    def from_file(self) -> bool:
        """True if the credentials are in clouds.yaml."""
        return "cloud" in self.settings


def login(config: Lookup | None = None, environment: Mapping[str, str] | None = None) -> CloudLogin:
    """Find the provider's settings.

    Args:
        config: looks up a key of the provider; by default in the stack's configuration.
        environment: by default that of this process.
    """
    look_up = config or pulumi.Config("openstack").get
    variables = os.environ if environment is None else environment

    def find(key: str, names: tuple[str, ...]) -> str | None:
        return look_up(key) or next((variables[n] for n in names if variables.get(n)), None)

    def found(table: tuple[tuple[str, tuple[str, ...], str], ...]) -> dict[str, object]:
        return {theirs: value for ours, names, theirs in table if (value := find(ours, names))}

    other = found(_OTHER)
    files = {
        theirs: f"openstack:{ours}" if look_up(ours) else names[0]
        for ours, names, theirs in _OTHER
        if theirs in FILES and theirs in other
    }
    insecure = find(*_INSECURE)
    if insecure is not None:
        other["verify"] = insecure.lower() not in ("1", "t", "true")
    if cloud := find(*_CLOUD):
        settings = {"cloud": cloud, **other}
        return CloudLogin(key="openstack:cloud", value=cloud, settings=settings, files=files)

    auth = found(_AUTH)
    default = find(*_DEFAULT_DOMAIN) or "default"
    for name, of in (("username", "user"), ("project_name", "project")):
        if name in auth and not {f"{of}_domain_id", f"{of}_domain_name"} & auth.keys():
            auth |= _domain(of, auth, default)
    chosen = method(auth)
    url = auth.get("auth_url")
    return CloudLogin(
        key="openstack:authUrl",
        value=str(url) if url else None,
        settings={"auth_type": chosen, "auth": used(auth, chosen), **other},
        files=files,
    )


def _domain(of: str, auth: Mapping[str, object], default: str) -> dict[str, object]:
    """The domain of the user or the project, where only a domain for both is set, or none."""
    if "domain_id" in auth:
        return {f"{of}_domain_id": auth["domain_id"]}
    if "domain_name" in auth:
        return {f"{of}_domain_name": auth["domain_name"]}
    return {f"{of}_domain_id": default}


def login_variables(config: Lookup | None = None) -> dict[str, str]:
    """The stack's keys for the login, as environment variables; they may hold a password.

    With them, a program that does not see the stack logs in the same way.
    """
    look_up = config or pulumi.Config("openstack").get
    known = [*(row[:2] for row in (*_AUTH, *_OTHER)), _CLOUD, _INSECURE, _DEFAULT_DOMAIN]
    return {names[0]: value for key, names in known if (value := look_up(key))}


def connect(login: CloudLogin) -> Connection:
    """Log in.

    Raises:
        ConfigError: naming the key that the credentials come from.
    """
    from keystoneauth1.exceptions import Unauthorized
    from openstack.connection import Connection

    from cloud.errors import CLOUD_ERRORS

    try:
        cloud = Connection(config=resolve(login))
        # `Connection.authorize` would pass on no more than the text of a refusal.
        cloud.session.get_token()
    except CLOUD_ERRORS as error:
        refused = isinstance(error, Unauthorized)
        problem = "refuses the credentials" if refused else "does not answer a login"
        fault = Fault(login.key, login.value, f"the cloud {problem}: {error}")
        raise ConfigError([fault]) from None
    return cloud


def connect_from_environment() -> Connection:
    """Log in where there is no stack: a command gets the stack's login from Pulumi as variables.

    Raises:
        ConfigError: naming what the credentials come from.
    """
    return connect(login(lambda _: None))


def resolve(login: CloudLogin) -> CloudRegion:
    """The complete settings, with the entry of clouds.yaml, without a request.

    Raises:
        ConfigError: when clouds.yaml is broken or has no such entry, it lacks something, nothing
            is set, or a certificate or its key cannot be read.
    """
    # The import takes half a second, which the tests need not spend.
    from keystoneauth1.exceptions import AuthPluginException
    from openstack.config import OpenStackConfig
    from openstack.config.loader import CONFIG_FILES, SECURE_FILES
    from openstack.exceptions import ConfigException

    if login.value is None:
        problem = "set it to an entry of clouds.yaml, or set OS_CLOUD or OS_AUTH_URL"
        raise ConfigError([Fault("openstack:cloud", MISSING, problem)])
    config_files = _also("OS_CLIENT_CONFIG_FILE", CONFIG_FILES)
    secure_files = _also("OS_CLIENT_SECURE_FILE", SECURE_FILES)
    if login.from_file:
        _require_entries(login, config_files)
        _require_entries(login, secure_files)
    known = OpenStackConfig(
        load_envvars=False,
        load_yaml_config=login.from_file,
        config_files=config_files,
        secure_files=secure_files,
    )
    # Without any clouds.yaml openstacksdk invents an entry.
    if login.from_file and known.config_filename is None:
        problem = (
            "there is no clouds.yaml in this folder, ~/.config/openstack, /etc/openstack, or where "
            "OS_CLIENT_CONFIG_FILE points"
        )
        raise ConfigError([Fault(login.key, login.value, problem)])
    clouds = known.get_cloud_names()
    if login.from_file and login.value not in clouds:
        near = nearest(login.value, clouds)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(clouds) or 'none'}"
        fault = Fault(login.key, login.value, f"no such entry in clouds.yaml; {hint}")
        raise ConfigError([fault])
    if login.from_file:
        _complete(login, known.cloud_config["clouds"][login.value])
    try:
        found = known.get_one(
            api_timeout=_REQUEST_SECONDS,
            retriable_status_codes=list(_BUSY),
            status_code_retries=_RETRIES,
            connect_retries=_CONNECT_RETRIES,
            **login.settings,
        )
    # A TypeError: the method cannot use one of the settings.
    except (ConfigException, AuthPluginException, TypeError) as error:
        fault = Fault(login.key, login.value, f"cannot be used: {error}")
        raise ConfigError([fault]) from None
    if login.from_file and not found.get_auth_args().get("auth_url"):
        raise ConfigError([Fault(login.key, login.value, "cannot be used: it has no auth_url")])
    if faults := list(_unreadable(login, found.config)):
        raise ConfigError(faults)
    return found


def _complete(login: CloudLogin, entry: dict[str, Any]) -> None:
    """Change an entry of clouds.yaml to what the provider makes of it."""
    auth = {**(entry.get("auth") or {}), **_from_environment(login, entry)}
    if entry.get("auth_type") in KNOWN and "profile" not in entry:
        entry["auth_type"] = method(auth)
        auth = used(auth, entry["auth_type"])
    entry["auth"] = auth
    if "region_name" in login.settings:
        # openstacksdk would accept only those of the entry.
        entry.pop("regions", None)
        entry["region_name"] = login.settings["region_name"]


def _unreadable(login: CloudLogin, settings: Mapping[str, Any]) -> Iterator[Fault]:
    for name in FILES:
        if not (path := settings.get(name)):
            continue
        try:
            Path(path).expanduser().read_text()
        except (OSError, ValueError) as error:
            key = login.files.get(name, f"{name} of {login.value} in clouds.yaml")
            # The provider takes the key itself, too, which is not to be shown.
            value = MISSING if "\n" in path else path
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            problem = f"cannot be read: {reason}; set it to the path of a PEM file"
            yield Fault(key, value, problem)


def _require_entries(login: CloudLogin, files: Sequence[str]) -> None:
    """Refuse the file of clouds that is found first, if it cannot be one.

    openstacksdk would look for another file, or fail in its own code.

    Raises:
        ConfigError: with the path, and the line if it is known.
    """
    for file in files:
        try:
            with Path(file).open() as text:
                content = json.load(text) if file.endswith("json") else yaml.safe_load(text)
        except OSError:
            continue
        except (ValueError, yaml.YAMLError) as error:
            # No more of the error: it may show a password.
            mark = getattr(error, "problem_mark", None)
            where = f"{file}, line {mark.line + 1}" if mark else file
            problem = f"{where}: has a syntax error; correct it"
            raise ConfigError([Fault(login.key, login.value, problem)]) from None
        clouds = {} if content is None else _entry(content, "clouds")
        for found, name in (
            (clouds, "`clouds:`"),
            (cloud := _entry(clouds, login.value), f"`clouds: {login.value}:`"),
            (_entry(cloud, "auth") or {}, f"`clouds: {login.value}: auth:`"),
        ):
            if not isinstance(found, dict):
                problem = f"{file}: {name} must have keys below it; write them there"
                raise ConfigError([Fault(login.key, login.value, problem)])
        return


def _entry(content: object, key: str | None) -> object:
    """What is below the key; empty if the key is not there."""
    return content.get(key, {}) if isinstance(content, dict) else None


def _from_environment(login: CloudLogin, entry: Mapping[str, Any]) -> dict[str, str]:
    """Settings that the provider takes from the environment because the entry lacks them.

    Its library (gophercloud, clientconfig.v3auth) does so for each field.

    Raises:
        ConfigError: the project would be another one than that of the entry.
    """
    auth = {**(entry.get("auth") or {})}
    if "profile" in entry:
        auth.setdefault("auth_url", "in the profile")
    missing = {
        theirs: name
        for _, names, theirs in _AUTH
        if not auth.get(theirs)
        for name in names
        if os.environ.get(name)
    }
    # They belong to a project, and the library takes nothing but a secret for them.
    if any(key.startswith("application_credential") for key in auth):
        missing = {key: name for key, name in missing.items() if key.endswith("_secret")}
        return {theirs: os.environ[name] for theirs, name in missing.items()}
    others = [missing[key] for key in ("project_id", "project_name") if key in missing]
    if others and {"project_id", "project_name"} & auth.keys():
        problem = (
            f"the provider adds {others[0]} from the environment to this entry of clouds.yaml, "
            f"which says another way what its project is; unset {others[0]}"
        )
        raise ConfigError([Fault(login.key, login.value, problem)])
    return {theirs: os.environ[name] for theirs, name in missing.items()}


def _also(variable: str, files: list[str]) -> list[str]:
    """The places of a file of clouds, in order; the one that the variable names comes first."""
    named = os.environ.get(variable)
    return [named, *files] if named else files
