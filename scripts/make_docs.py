"""Writes what is generated: docs/catalogue.md with its short form in the README, docs/papers.md and docs/zoo.md.

python scripts/make_docs.py [--check]
python scripts/make_docs.py --sheets     also draws every corruption: docs/corruption-gallery.md with its figures
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import Component, registry
from holdfast.core.suites import load_suite, suites
from holdfast.core.values import value_text
from holdfast.models import read_card
from holdfast.models.zoo import FOLDER
from holdfast.training.recipes import family

ROOT = Path(__file__).parent.parent
KINDS = {
    "dataset": "Datasets",
    "model": "Models and model sources",
    "architecture": "Architectures for `file:`",
    "corruption": "Corruptions",
    "attack": "Attacks",
    "metric": "Metrics",
    "recipe": "Training recipes",
}
SHEETS = ROOT / "docs" / "figures" / "corruptions"
GALLERY = ROOT / "docs" / "corruption-gallery.md"
LARGEST_SHEET = 60_000  # bytes
NORMS = ("linf", "l2", "l1")
FAMILY = 9  # more names than this with one first word are counted in the README, not listed; the catalogue has them all
STATES = {
    "reproduced": "the printed numbers come out",
    "comparable": "the same of one's own or other public models: what is behind the printed one is not public",
    "waits": "data or weights that are not public are needed",
}
ZOO = "cifar10-zoo"
ZOO_SEED = re.compile(r"\bseed (\d+)")
ZOO_TIME = re.compile(r"seed \d+; (?P<time>[^;]*)|training version \d+; (?P<early>[^;]*)")
ZOO_SCORE = r"(?P<score>[\d.]+ % \[[\d., ]+\] of [\d,]+)"
ZOO_COLUMNS = {
    "right": re.compile(rf"right {ZOO_SCORE}"),
    "mm5-linf 8/255": re.compile(rf"under mm5-linf:radius=8/255 {ZOO_SCORE}"),
    "mm5-l2 0.5": re.compile(rf"under mm5-l2:radius=0\.5 {ZOO_SCORE}"),
}
BEGIN, END = "<!-- catalogue: made by `make docs` -->", "<!-- end of catalogue -->"


def main() -> None:
    if "--sheets" in sys.argv:
        draw_sheets()
    stale = []
    for path, text in generated().items():
        if path.read_text(encoding="utf-8") != text if path.exists() else True:
            stale.append(path)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{'stale' if '--check' in sys.argv else 'wrote'}: {path.relative_to(ROOT)}")
    if stale and "--check" in sys.argv:
        sys.exit("run `make docs`")


def generated() -> dict[Path, str]:
    """Every generated file with what it should hold."""
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    made = {
        ROOT / "docs" / "catalogue.md": catalogue(),
        ROOT / "docs" / "papers.md": papers(),
        ROOT / "docs" / "zoo.md": zoo_page(),
        readme: f"{before}{BEGIN}\n{brief()}\n{END}{after}",
    }
    return made | ({GALLERY: gallery()} if SHEETS.is_dir() else {})


def papers() -> str:
    """Every table and figure of the papers with its commands, from docs/papers.toml."""
    record = tomllib.loads((ROOT / "docs" / "papers.toml").read_text(encoding="utf-8"))
    lines = [
        "# The tables and figures of the papers",
        "",
        "Made from `docs/papers.toml` by `make docs`; a test runs every command on small or made-up data.",
        "Drawings are SVG or PNG files, numbers go to stdout (`--json`, `--csv`, `--latex`).",
        "",
        "| state | means |",
        "|---|---|",
        *(f"| {state} | {meaning} |" for state, meaning in STATES.items()),
        "",
    ]
    for paper in record["paper"]:
        rows = [row for row in record["row"] if row["paper"] == paper["name"]]
        lines += [f"## {paper['title']} ({paper['source']})", "", paper["about"], ""]
        lines += ["| item | what it shows | state | |", "|---|---|---|---|"]
        lines += [f"| {row['item']} | {row['what']} | {row['state']} | {row.get('note', '')} |" for row in rows]
        lines += ["", "<!-- snippet: skip, tests/system/test_papers.py runs it -->", "```bash"]
        for row in rows:
            lines += [f"# {row['item']}", *row["commands"]]
        lines += ["```", ""]
    return "\n".join(lines)


def brief() -> str:
    lines = ["| kind | names |", "|---|---|"]
    for kind, title in KINDS.items():
        names = list(registry.entries(kind))
        large = {first for first, count in first_words(folded(names)).items() if count > FAMILY}
        families = {first: count for first, count in first_words(names).items() if first in large}
        single = [name for name in names if name.partition("-")[0] not in families]
        texts = [f"`{name}`" for name in folded(single)]
        texts += [f"{count} named `{first}-…`" for first, count in families.items()]
        lines.append(f"| {title} | {', '.join(texts)} |")
    lines.append(f"| Suites | {', '.join(f'`{name}`' for name in suites())} |")
    return "\n".join(lines)


def first_words(names: list[str]) -> Counter[str]:
    """How many names begin with the same word and a dash."""
    return Counter(name.partition("-")[0] for name in names if "-" in name)


def folded(names: list[str]) -> list[str]:
    """The same names with those that differ in the norm alone as one: `pgd-{linf,l2,l1}`."""
    stems: dict[str, list[str]] = {}
    for name in names:
        stem, _, norm = name.rpartition("-")
        stems.setdefault(stem if norm in NORMS and stem else name, []).append(norm)
    several = {stem: [norm for norm in NORMS if norm in found] for stem, found in stems.items() if len(found) > 1}
    single = [name for name in names if name.rpartition("-")[0] not in several]
    return sorted([*single, *(f"{stem}-{{{','.join(norms)}}}" for stem, norms in several.items())])


def zoo_page() -> str:
    """The bundled CIFAR-10 models as their cards tell of them: recipe, time and accuracy."""
    recipes = {recipe.name: recipe for recipe in family(ZOO)}
    lines = [
        "# The CIFAR-10 models of the package",
        "",
        "Made by `make docs` from the models' cards. Each is a name like `cifar10-standard-r20`, and comes from the",
        "recipe of that name: `holdfast show recipe:NAME`, `holdfast train NAME`. Percent of CIFAR-10's test images",
        "right, with the 95 % interval and n: as they are, and under minimum-margin attacks, in float32.",
        "",
        f"| model | recipe | seed | trained in | {' | '.join(ZOO_COLUMNS)} |",
        f"|---|---|---|---|{'---|' * len(ZOO_COLUMNS)}",
    ]
    for file in sorted(FOLDER.glob("cifar10-*.safetensors")):
        saved = read_card(file)
        if saved is None:
            raise HoldfastError(f"{file} has no card")
        notes, recipe = saved.card.notes, recipes[file.stem]
        time = ZOO_TIME.search(notes)
        seed = ZOO_SEED.search(notes)
        cells = [
            f"`{file.stem}`",
            recipe.title.rstrip("."),
            seed[1] if seed else str(recipe.seed),
            (time["time"] or time["early"]).strip() if time else "",
            *(found["score"] if (found := column.search(notes)) else "" for column in ZOO_COLUMNS.values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def catalogue() -> str:
    parts = ["# Catalogue", "", "Everything that has a name, with its parameters and defaults. Made by `make docs`."]
    for kind, title in KINDS.items():
        parts += ["", f"## {title}", "", "| name | what it is | parameters | source |", "|---|---|---|---|"]
        parts += [row(entry) for entry in registry.entries(kind).values()]
    parts += ["", "## Suites", "", "| name | what it is | scenarios |", "|---|---|---|"]
    for name in suites():
        suite = load_suite(name)
        parts.append(f"| `{name}` | {suite.title} | {len(suite.scenarios)} |")
    return "\n".join(parts) + "\n"


def row(entry: Component) -> str:
    parameters = "<br>".join(
        f"`{p.name}`" if p.required else f"`{p.name}={value_text(p.default)}`" for p in entry.parameters
    )
    return f"| `{entry.name}` | {entry.summary} | {parameters} | {entry.source} |".replace("\n", " ")


def gallery() -> str:
    """A page with the contact sheet of every corruption, by category."""
    categories: dict[str, list[Component]] = {}
    for entry in registry.entries("corruption").values():
        categories.setdefault(entry.tags[0] if entry.tags else "other", []).append(entry)
    parts = [
        "# Every corruption, at every severity",
        "",
        "The original, then every severity of the `imagenet` ladder, on two drawn landscapes of 224x224 pixels, shown",
        "smaller. Made by `python scripts/make_docs.py --sheets`. `holdfast show NAME --out sheet.png --dataset …`",
        "draws one on your own images.",
    ]
    for category, entries in sorted(categories.items()):
        parts += ["", f"## {category.capitalize()}"]
        for entry in entries:
            picture = (SHEETS / f"{entry.name}.jpg").relative_to(GALLERY.parent).as_posix()
            parts += ["", f"**{entry.name}** {entry.summary}", "", f"![{entry.name}]({picture})"]
    return "\n".join(parts) + "\n"


def draw_sheets() -> None:
    """One small picture per corruption; those of corruptions that are gone go too."""
    from holdfast.cli.sheet import contact_sheet, save_sheet

    names = list(registry.entries("corruption"))
    for name in names:
        path = SHEETS / f"{name}.jpg"
        save_sheet(contact_sheet(name, images=2, tile=96), path)
        size = path.stat().st_size
        if size > LARGEST_SHEET:
            sys.exit(f"{path.relative_to(ROOT)} has {size} bytes, more than {LARGEST_SHEET}")
    for old in SHEETS.glob("*.jpg"):
        if old.stem not in names:
            old.unlink()
    print(f"drew {len(names)} sheets in {SHEETS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
