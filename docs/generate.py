"""Writes what follows from the configuration's models: `make generate`.

`Pulumi.yaml` (the keys as the engine knows them), `Pulumi.admin.yaml` (every key, to be
uncommented) and `docs/configuration.md`. A test checks that all three are current.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from config.load import PROJECT, SECRET_KEYS
from docs.schema import Key, keys

ROOT = Path(__file__).parent.parent
_EXAMPLES: Mapping[str, object] = yaml.safe_load((ROOT / "docs/examples.yaml").read_text())

# Below this, the engine lacks `requiredPulumiVersion` or what the components use of it.
_PULUMI = ">=3.250.0"
_WIDTH = 96
_LONGEST_DEFAULT = 60
_NOTE = "Generated from config/ by `make generate`; a test checks that it is current."

# The engine has no optional keys without a default; `config.load` takes these for "not set".
_NOT_SET: Mapping[str, object] = {"string": "", "array": [], "object": {}}

# The one key whose default the models do not know.
_STACK_NAME = "clusterName"


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: no references, and texts of several lines as such."""

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
    """A value over several lines, as YAML."""
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
        entry: dict[str, object] = {"description": key.description, "type": key.kind}
        if key.kind == "array":
            entry["items"] = {"type": key.item_kind}
        declared[key.path] = {**entry, "default": _default(key)}
    project = {
        "name": PROJECT,
        "description": "Highly available Kubernetes on OpenStack: one stack is one cluster",
        "requiredPulumiVersion": _PULUMI,
        "runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}},
        "config": declared,
    }
    return (
        f"# {_NOTE}\n"
        "# An empty default means that the key is not set; docs/configuration.md has the whole\n"
        f"# reference. Secrets are not declared here: {', '.join(SECRET_KEYS)}.\n"
        f"{_block(project)}\n"
    )


def _commented(text: str, indent: str) -> str:
    return "\n".join(f"{indent}#{line}" for line in text.splitlines())


def _in_stack(key: Key) -> Iterator[str]:
    """The lines of one key, without comment marks, as a stack's file holds them."""
    pad = "  " * key.depth
    yield f"{pad}# {key.description}" if key.depth else ""
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


def admin_yaml() -> str:
    """The file of the stack `admin`, with every key; those that must be set are not commented."""
    lines = [
        f"# {_NOTE}",
        "# The stack `admin`, and the pattern for others: copy the file to Pulumi.<stack>.yaml.",
        "# Every key is here. A line that begins with `#` and no space shows a default or, where",
        "# there is none, an example; take the `#` away to set it.",
        "config:",
        "  # Entry of clouds.yaml with the credentials; OS_CLOUD and the other OS_* variables work",
        "  # as well, and so does each key of the OpenStack provider.",
        "  openstack:cloud: openstack",
    ]
    must = ("image", "flavor")
    for group in _top_level():
        top = group[0]
        body = "\n".join(line for key in group for line in _in_stack(key) if line)
        mandatory = (top.required and top.path != _STACK_NAME) or top.path in must
        lines += ["", f"  # {top.description}"]
        lines.append(
            "\n".join(f"  {line}" for line in body.splitlines())
            if mandatory
            else _commented(body, "  ")
        )
    for name, description in SECRET_KEYS.items():
        lines += ["", f"  # {description}", f"  # pulumi config set --secret {name} < FILE"]
    return "\n".join(lines) + "\n"


def _top_level() -> list[list[Key]]:
    """Each top-level key with what it holds; what lists hold is shown by their examples."""
    groups: list[list[Key]] = []
    opaque: str | None = None
    for key in keys():
        if key.depth == 0:
            groups.append([])
            opaque = None
        if opaque is None or not key.path.startswith(opaque):
            groups[-1].append(key)
            # Objects that may be absent, and lists, come as one example.
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
        default = "see `Pulumi.admin.yaml`"
    else:
        default = f"`{json.dumps(key.default) if key.kind != 'string' else key.default}`"
    kind = "object" if key.type == "group" else key.type
    cells = [f"`{key.path}`", _cell(kind), default, _cell(key.description)]
    return f"| {' | '.join(cells)} |"


_HEAD = ["| key | type | default | what it is |", "|---|---|---|---|"]


def configuration_md() -> str:
    """The reference."""
    groups = _top_level_with_items()
    lines = [
        f"<!-- {_NOTE} -->",
        "# Configuration",
        "",
        "One stack is one cluster, and its configuration is `Pulumi.<stack>.yaml`. Set a key with",
        "`pulumi config set KEY VALUE`, one inside of another with `--path`:",
        "",
        "```sh",
        "pulumi config set workerCount 5",
        "pulumi config set --path 'allowedCidrs[0]' 203.0.113.0/24",
        "pulumi config set --path controlPlane.etcdVolume.size 10",
        "```",
        "",
        "Everything is checked at `pulumi preview`: first by itself, then against the cloud",
        "(names, sizes, quotas; `cloudChecks`). One message names every fault, with the key, the",
        "value and what to do. A text, list or object that is empty counts as not set.",
        "",
        "The credentials are those of Pulumi's OpenStack provider: `openstack:cloud` (an entry of",
        "`clouds.yaml`), its other keys, or the `OS_*` variables.",
        "",
        "`Pulumi.admin.yaml` shows every key in place.",
        "",
        "## Single values",
        "",
        *_HEAD,
        *(_row(group[0]) for group in groups if len(group) == 1),
        *(
            f"| `{name}` | secret text |  | {_cell(description)} "
            f"Set it with `pulumi config set --secret {name}`. |"
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


FILES: Mapping[str, Callable[[], str]] = {
    "Pulumi.yaml": pulumi_yaml,
    "Pulumi.admin.yaml": admin_yaml,
    "docs/configuration.md": configuration_md,
}


def main() -> None:
    """Write every file."""
    for name, text in FILES.items():
        (ROOT / name).write_text(text())
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
