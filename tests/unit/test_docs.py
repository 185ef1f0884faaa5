"""The documents are true about versions, keys, files, messages and resources."""

import importlib.util
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import versions
from addons.monitoring import alerts
from config import security_groups
from config.load import SECRET_KEYS
from docs.schema import keys
from tests import runbooks
from tests.unit import clusters
from tests.unit.engine import Run, run
from tests.unit.monitoring_targets import TARGETS

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (
    ".",
    "docs",
    "docs/decisions",
    "docs/operations",
    "examples",
    "lab",
    "lab/image",
    "lab/toolchain",
)
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
BY_HAND = (ROOT / "docs/by-hand.md").read_text()
KEYS = {key.path: key for key in keys()}
PINNED = {
    name: value
    for name, value in vars(versions).items()
    if name.isupper() and isinstance(value, str) and name != "PROGRAM"
}


def anchor(heading: str) -> str:
    """GitHub's name for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(h) for h in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("name", PINNED)
def test_the_readme_names_each_pinned_version(name: str) -> None:
    cells = re.findall(r"^\|[^|]*\|([^|]*)\|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert PINNED[name] in {version.strip() for cell in cells for version in cell.split(",")}


def test_the_readme_has_the_figures_and_the_diagram_of_the_pages_behind_it() -> None:
    readme, tested = (ROOT / "README.md").read_text(), (ROOT / "docs/tested.md").read_text()
    [table] = re.findall(r"^\| measured on the lab.*\n\|---.*\n((?:\|.*\n)+)", readme, re.MULTILINE)
    figures = [row.strip("| ").split(" | ")[-1] for row in table.splitlines()]
    assert len(figures) > 1
    assert [figure for figure in figures if figure not in tested] == []
    [diagram] = re.findall(r"```mermaid\n.*?```", readme, re.DOTALL)
    assert diagram in (ROOT / "docs/architecture.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if heading:
            assert heading in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_key_that_is_set_exists(page: Path) -> None:
    for path in re.findall(r"pulumi config set(?: --\w+)* '?([\w.\[\]]+)", page.read_text()):
        general = re.sub(r"\[\d+\]", "[]", path)
        names = {general, general.removesuffix("[]")}
        # What is below an object without keys of its own is another program's.
        above = {path.rpartition(".")[0] for path in KEYS}
        opaque = (p for p, key in KEYS.items() if key.type == "object" and p not in above)
        inside = any(general.startswith(f"{path}.") for path in opaque)
        assert inside or names & (KEYS.keys() | SECRET_KEYS.keys() | {"KEY"}), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_of_ours_exists(page: Path) -> None:
    text = page.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z0-9-]+)", text, re.MULTILINE):
        assert f"\n{target}:" in makefile, target
    for python, module in re.findall(r"([\w./]*python) -m (\w+)", text):
        assert importlib.util.find_spec(module), module
        # A decision tells a story; whoever follows a runbook has no other Python with our packages.
        assert python == ".venv/bin/python" or page.parent.name == "decisions", module


def test_each_path_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:[a-z]+/)+[\w.-]*)`", text)
    assert "config/ports.py" in named
    for path in named:
        # A module may be a file or a package.
        assert (ROOT / path).exists() or (ROOT / f"{path}.py").exists(), path


@pytest.mark.parametrize("page", runbooks.PAGES)
def test_the_index_and_its_page_name_each_runbook_once(page: str) -> None:
    named = re.findall(rf"\[([^\]]+)\]\(operations/{page}#", runbooks.INDEX)
    assert named == runbooks.titles(page)
    assert (
        re.findall(r"^- \[(.+)\]", runbooks.PAGES[page].partition("\n## ")[0], re.MULTILINE)
        == named
    )


def test_each_script_on_a_machine_that_a_runbook_names_exists() -> None:
    scripts = re.findall(r"openstack-kubernetes/current/([\w/.-]+\.sh)", runbooks.TEXT + BY_HAND)
    assert scripts
    for script in scripts:
        assert (ROOT / "userdata" / script).exists(), script


def test_the_lab_asks_for_the_go_that_its_modules_need() -> None:
    needed = {
        tuple(map(int, version.split(".")))
        for module in (ROOT / "lab").glob("**/go.mod")
        for version in re.findall(r"^go ([\d.]+)$", module.read_text(), re.MULTILINE)
    }
    [asked] = re.findall(r"Go ([\d.]+\d)", (ROOT / "lab/README.md").read_text())
    assert tuple(map(int, asked.split("."))) == max(needed)


def messages(name: str) -> list[str]:
    """The first column of a page's tables about what the program says."""
    found: list[str] = []
    in_table = False
    for line in (ROOT / "docs" / name).read_text().splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") else ""
        in_table = bool(first) and (in_table or first == "it says")
        found += re.findall("`([^`]+)`", first) if in_table else ()
    return found


@cache
def said() -> str:
    """All that the program and its scripts can say."""
    folders = ("addons", "cloud", "commands", "components", "config", "userdata")
    sources = [
        each
        for folder in folders
        for each in (ROOT / folder).rglob("*.*")
        if each.suffix in (".py", ".sh")
    ]
    # A long text in Python is several literals.
    return re.sub(r'"\s+f?"', "", "\n".join(source.read_text() for source in sources))


@pytest.mark.parametrize("message", [*messages("troubleshooting.md"), *messages("by-hand.md")])
def test_each_message_can_be_said(message: str) -> None:
    for part in re.split(r"\.\.\.|\bN\b", message):
        assert part.strip() in said()


@pytest.fixture(scope="module")
def cluster() -> Run:
    """The cluster `demo` of the runbooks."""
    return run({"controlPlane": {"etcdVolume": {"size": 10}}})


def test_each_resource_that_a_runbook_names_exists(cluster: Run) -> None:
    patterns = re.findall(r":(\w+)::(demo-[\w-]+)", runbooks.TEXT)
    assert patterns
    for kind, name in patterns:
        assert cluster.one(kind, name).urn
    for machine in ("demo-gateway", "demo-control-plane-0", "demo-worker-0"):
        assert cluster.one("PrivateKey", f"{machine}-host-key").urn


def test_each_thing_in_the_cloud_that_a_runbook_names_exists(cluster: Run) -> None:
    made = {each.inputs.get("name") for each in cluster.resources.values()}
    named = re.findall(r"openstack (?!application)[^\n`]*? (demo[\w-]*)", runbooks.TEXT + BY_HAND)
    assert named
    assert set(named) <= made


def _ports(rule: security_groups.Rule) -> str:
    if rule.first is None:
        return ""
    return str(rule.first) if rule.first == rule.last else f"{rule.first}:{rule.last}"


def test_a_machine_by_hand_may_do_what_a_node_may() -> None:
    source = "10.9.0.60/32"
    machine = {"name": "metal-0", "address": "10.9.0.60", "hostKey": "ssh-ed25519 AAAA"}
    with_machine = clusters.cluster(workerPools=[{"name": "metal", "machines": [machine]}])
    needed = {
        (f"demo-{rule.group}", rule.protocol, _ports(rule))
        for rule in security_groups.rules(with_machine)
        if rule.source == source
    }
    command = r"rule create (\S+) --protocol (\w+)(?: --dst-port ([\d:]+))? --remote-ip "
    assert set(re.findall(command + re.escape(source), BY_HAND)) == needed


def test_each_alert_has_its_line_in_the_runbook() -> None:
    # With fewer the loss of one member endangers the majority, which is another alert.
    five = replace(TARGETS, control_plane_count=5)
    ours = {alert.name for group in alerts.groups(five).values() for alert in group}
    _, _, table = runbooks.runbook("Alerts").partition("| alert | first look |\n")
    rows = re.findall(r"^\| (.*?) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == ours
