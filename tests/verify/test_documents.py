"""The documents are true of the tree: what they link to exists, their tables are whole, and what must be named in them is named."""

import fnmatch
import pathlib
import re

import pytest

import check_layers

ROOT = pathlib.Path(check_layers.__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
LAYER_ROWS = {check_layers.GROUND: 2, check_layers.ADAPTERS: 3, check_layers.SERVICES: 4, check_layers.STORY: 5, check_layers.PROCESS: 6}

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def lines_of(document):
    """Without what stands indented as code."""
    return [line for line in document.read_text().splitlines() if not line.startswith("    ")]


def anchors_of(document):
    headings = [line.lstrip("#").strip().lower() for line in lines_of(document) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@each_document
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)]+)\)", "\n".join(lines_of(document))):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        assert path.exists(), target
        assert not anchor or anchor in anchors_of(path), target


@each_document
def test_no_row_has_lost_its_table(document):
    lines = ["", *(line.strip() for line in document.read_text().splitlines()), ""]
    for before, line, after in zip(lines, lines[1:], lines[2:]):
        if line.startswith("|") and not before.startswith("|"):
            assert after.startswith("|--"), line


def test_the_full_example_names_every_key_of_this_release():
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", (ROOT / "docs" / "configuration.md").read_text(), re.MULTILINE)
    keys = {re.split(r"[.\]]", name)[-1] or name.split("[")[0].split(".")[-1] for name, kind in rows if "not yet" not in kind and kind != "type and range"}
    example = (ROOT / "conf" / "full.yaml").read_text()
    assert {"journal", "max_wait", "reserve", "soft", "compress"} <= keys, "the tables were read"
    assert [key for key in sorted(keys) if not re.search(rf"\b{re.escape(key)}:", example)] == []


def test_every_file_of_the_layers_exists():
    files = {path.stem for path in (ROOT / "proxy").iterdir()}
    names = [name for modules in check_layers.MODULES.values() for module in modules.values() for name in module]
    assert [name for name in names if not fnmatch.filter(files, name)] == []


@pytest.mark.parametrize("layer", LAYER_ROWS)
def test_the_table_of_layers_names_every_module(layer):
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    row = re.search(rf"^\| {LAYER_ROWS[layer]} \w+ \| (.*?) \|", text, re.MULTILINE)[1]
    words = re.findall(r"[\w*]+", row)
    assert [module for module in check_layers.MODULES[layer]
            if not any(fnmatch.fnmatch(name, word) for word in words for name in (module, *check_layers.MODULES[layer][module]))] == []
