"""Writes the files that are generated from the configuration's models: `make generate`.

`Pulumi.yaml` declares the keys to the engine, `examples/Pulumi.every-key.yaml` shows every key in
place, and `docs/configuration.md` is the reference. The README and the examples get the versions
of `versions.py`. A test checks that all of them are current.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import yaml

import versions
from config.load import PROJECT, SECRET_KEYS
from config.own_ssh_keys import NEWEST, PREVIOUS
from docs.schema import Key, keys

ROOT = Path(__file__).parent.parent
_EXAMPLES: Mapping[str, object] = yaml.safe_load((ROOT / "docs/examples.yaml").read_text())

# Older engines lack `requiredPulumiVersion`, or features that the components use.
_PULUMI = ">=3.250.0"
_WIDTH = 96
_DESCRIPTION = "Highly available Kubernetes on OpenStack: one stack is one cluster"
_LONGEST_DEFAULT = 60
_NOTE = "Generated from config/ by `make generate`; a test checks that it is current."

# The engine has no optional keys without a default; `config.load` takes these for "not set".
_NOT_SET: Mapping[str, object] = {"string": "", "array": [], "object": {}}

# For the OpenStack provider, in each stack that does not set its own: a cloud that answers 429 (too
# many requests) is asked again when it says.
_PROVIDER: Mapping[str, object] = {"openstack:maxRetries": {"value": 10}}

# What `pulumi new` asks for: the keys without which no cluster can be planned.
_ASKED = ("image", "flavor", "externalNetwork", "allowedCidrs")
_CLOUD = "Entry of clouds.yaml with the credentials; empty: OS_CLOUD and the other OS_* variables."
_QUICKSTART = """\
Docs and every other setting: docs/configuration.md, and examples/Pulumi.every-key.yaml.
See what the cluster would be made of with `pulumi preview`.
"""

# Row of the README's table -> its versions.
_PINNED: Mapping[str, tuple[str, ...]] = {
    "Kubernetes by kubeadm, stacked etcd": (versions.KUBERNETES_VERSION,),
    "etcdutl": (versions.ETCD_TOOLS,),
    "Cilium": (versions.CILIUM_CHART,),
    "OpenStack cloud controller manager": (versions.CLOUD_CONTROLLER_MANAGER,),
    "Cinder CSI": (versions.CINDER_CSI_CHART,),
    "metrics-server": (versions.METRICS_SERVER_CHART,),
    "snapshot-controller": (versions.SNAPSHOT_CONTROLLER_CHART,),
    "Python": (versions.JOBS_PYTHON,),
    "kube-prometheus-stack": (versions.KUBE_PROMETHEUS_STACK_CHART,),
    "Traefik or NGINX Ingress Controller": (versions.TRAEFIK_CHART, versions.NGINX_INGRESS_CHART),
    "Headlamp": (versions.HEADLAMP_CHART,),
    "VictoriaLogs, Fluent Bit, Grafana's plugin for them": (
        versions.VICTORIA_LOGS_CHART,
        versions.FLUENT_BIT_CHART,
        versions.VICTORIA_LOGS_DATASOURCE,
    ),
    "kured": (versions.KURED_CHART,),
    "Pulumi Kubernetes Operator": (versions.PULUMI_OPERATOR_CHART,),
    "versitygw": (versions.VERSITYGW,),
}
_WITH_A_VERSION = (
    *(f"examples/Pulumi.{name}.yaml" for name in ("small", "ha", "private")),
    "Pulumi.admin.yaml",
)

# The only key whose default is not in the models.
_STACK_NAME = "clusterName"


class _Dumper(yaml.SafeDumper):
    """Writes YAML for readers: no references, and strings of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = "|" if "\n" in data else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


def _flow(value: object) -> str:
    """A value on one line, as YAML."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, width=10**6, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("...").removesuffix("\n")


def _block(value: object) -> str:
    """A value on several lines, as YAML."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, width=_WIDTH, sort_keys=False, default_flow_style=False
    )
    return text.removesuffix("\n")


def _default(key: Key) -> object:
    if key.default is None or key.kind in ("array", "object"):
        return _NOT_SET[key.kind]
    return key.default


def pulumi_yaml() -> str:
    """The project file."""
    declared: dict[str, object] = {}
    for key in keys():
        if key.depth:
            continue
        declared[key.path] = {
            "description": key.description,
            **_engine_type(key),
            "default": _default(key),
        }
    project = {
        "name": PROJECT,
        "description": _DESCRIPTION,
        "requiredPulumiVersion": _PULUMI,
        "runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}},
        "template": {
            "description": _DESCRIPTION,
            "quickstart": _QUICKSTART,
            "config": {
                "openstack:cloud": {"description": _CLOUD},
                **{
                    key.path: {"description": key.description}
                    for key in keys()
                    if key.path in _ASKED
                },
            },
        },
        "config": {**_PROVIDER, **declared},
    }
    return (
        f"# {_NOTE}\n"
        "# An empty default means that the key is not set; docs/configuration.md is the complete\n"
        f"# reference. Secrets are not declared here: {', '.join(SECRET_KEYS)}.\n"
        f"{_block(project)}\n"
    )


def _engine_type(key: Key) -> dict[str, object]:
    """The type that the engine checks; none where the models take a text for a list, too."""
    if key.kind != "array":
        return {"type": key.kind}
    return {} if key.item_kind == "string" else {"type": "array", "items": {"type": key.item_kind}}


def _in_stack(key: Key) -> Iterator[str]:
    """The lines of one key in a stack's file, not commented out."""
    pad = "  " * key.depth
    yield f"{pad}# {_without_links(key.description)}" if key.depth else ""
    name = key.name if key.depth else f"{PROJECT}:{key.name}"
    if key.type == "group":
        yield f"{pad}{name}:"
        return
    value = _EXAMPLES.get(key.path, key.default)
    if isinstance(value, list | dict) and (len(_flow(value)) > _WIDTH // 2 or "\n" in str(value)):
        yield f"{pad}{name}:"
        yield from (f"{pad}  {line}" for line in _block(value).splitlines())
    else:
        yield f"{pad}{name}: {_flow(value)}"


def _without_links(description: str) -> str:
    """The text with the titles of runbooks, as messages name them."""
    return re.sub(r"\[([^]]+)\]\(operations/[^)]*\)", r"'\1' in docs/operations.md", description)


def _setting(secret: str) -> str:
    """The command that sets a secret; Pulumi asks for one that is a single line."""
    lines = " <FILE" if secret in (NEWEST, PREVIOUS) else ""
    return f"pulumi config set --secret {secret}{lines}"


def every_key_yaml() -> str:
    """A stack's file with every key; only those that must be set are not commented out."""
    lines = [
        f"# {_NOTE}",
        "# Every key of a stack, to copy from into Pulumi.<stack>.yaml. A line that begins with",
        "# `#` and no space shows the default or, if there is none, an example.",
        "config:",
        "  # Entry of clouds.yaml with the credentials. The OS_* variables and the other keys of",
        "  # the OpenStack provider work as well.",
        "  openstack:cloud: openstack",
    ]
    must = ("image", "flavor")
    for group in _top_level():
        top = group[0]
        mandatory = (top.required and top.path != _STACK_NAME) or top.path in must
        lines += ["", f"  # {_without_links(top.description)}"]
        for key in group:
            mark = "  " if mandatory else "  #"
            lines += [f"{mark}{line}" for line in _in_stack(key) if line]
    for name, description in SECRET_KEYS.items():
        lines += ["", f"  # {description}", f"  # {_setting(name)}"]
    return "\n".join(lines) + "\n"


def _top_level() -> list[list[Key]]:
    """Each top-level key with the keys in it; the items of lists are shown by their examples."""
    groups: list[list[Key]] = []
    opaque: str | None = None
    for key in keys():
        if key.depth == 0:
            groups.append([])
            opaque = None
        if opaque is None or not key.path.startswith(opaque):
            groups[-1].append(key)
            # Lists, and objects that may be missing, are shown as one example.
            opaque = (
                None if key.type == "group" or key.kind not in ("object", "array") else key.path
            )
    return groups


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(key: Key) -> str:
    if key.path == _STACK_NAME:
        default = "the stack's name"
    elif key.required:
        default = "**required**"
    elif key.type == "group" or key.default is None or key.default in ("", [], {}):
        default = ""
    elif len(json.dumps(key.default)) > _LONGEST_DEFAULT:
        default = "see `Pulumi.every-key.yaml`"
    else:
        default = f"`{json.dumps(key.default) if key.kind != 'string' else key.default}`"
    kind = "object" if key.type == "group" else key.type
    cells = [f"`{key.path}`", _cell(kind), default, _cell(key.description)]
    return f"| {' | '.join(cells)} |"


_HEAD = ["| key | type | default | description |", "|---|---|---|---|"]


def configuration_md() -> str:
    """The configuration reference."""
    groups = _top_level_with_items()
    lines = [
        f"<!-- {_NOTE} -->",
        "# Configuration",
        "",
        "One stack is one cluster, and its configuration is in `Pulumi.<stack>.yaml`. Set a key",
        "with `pulumi config set KEY VALUE`, and a nested key with `--path`:",
        "",
        "```sh",
        "pulumi config set workerCount 5",
        "pulumi config set --path addons.ingress.enabled true",
        "pulumi config set --path 'ingressCidrs[0]' 0.0.0.0/0",
        "```",
        "",
        "`pulumi preview` checks everything: first the configuration itself, then (unless",
        "`cloudChecks` is false) names, sizes and quotas in the cloud. One message lists every",
        "fault, with the key, the value and what to do. A top-level key that is an empty string,",
        "list or object counts as not set.",
        "",
        "The credentials are those of Pulumi's OpenStack provider: set `openstack:cloud` to an",
        "entry of `clouds.yaml`, or use the provider's other keys or the `OS_*` variables. A",
        "request that gets no answer, or 429 (too many requests) with a time to wait, is repeated",
        "up to `openstack:maxRetries` times, by default 10. After any other error, such as 503,",
        "the update fails, and the next one continues.",
        "",
        "[Pulumi.every-key.yaml](../examples/Pulumi.every-key.yaml) shows each key in its place.",
        "",
        "## Top-level keys",
        "",
        *_HEAD,
        *(_row(group[0]) for group in groups if len(group) == 1),
        *(
            f"| `{name}` | secret string |  | {_cell(description)} "
            f"Set it with `{_setting(name)}`. |"
            for name, description in SECRET_KEYS.items()
        ),
    ]
    for group in groups:
        if len(group) > 1:
            top = group[0]
            what = "" if top.type == "group" else f" ({top.type}; default: none)"
            lines += ["", f"## {top.path}", "", f"{top.description}{what}", "", *_HEAD]
            lines += [_row(key) for key in group[1:]]
    return "\n".join(lines) + "\n"


def _top_level_with_items() -> list[list[Key]]:
    groups: list[list[Key]] = []
    for key in keys():
        if key.depth == 0:
            groups.append([])
        groups[-1].append(key)
    return groups


def readme_md() -> str:
    """`README.md` with the present versions in its table.

    Raises:
        ValueError: the table has no row of this name.
    """
    text = (ROOT / "README.md").read_text()
    for name, pinned in _PINNED.items():
        row = f"| {name} | {', '.join(pinned)} |"
        text, found = re.subn(rf"(?m)^\| {re.escape(name)} \| [^|]* \|", row, text)
        if found != 1:
            raise ValueError(f"README.md has {found} rows of {name}")
    return text


def with_version(name: str) -> str:
    """A stack's file with the present version of Kubernetes."""
    text = (ROOT / name).read_text()
    return re.sub(r"(:kubernetesVersion:) \S+", rf"\1 {versions.KUBERNETES_VERSION}", text)


FILES: Mapping[str, Callable[[], str]] = {
    "Pulumi.yaml": pulumi_yaml,
    "examples/Pulumi.every-key.yaml": every_key_yaml,
    "docs/configuration.md": configuration_md,
    "README.md": readme_md,
    **{name: partial(with_version, name) for name in _WITH_A_VERSION},
}


def main() -> None:
    """Write every file."""
    for name, text in FILES.items():
        (ROOT / name).write_text(text())
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
