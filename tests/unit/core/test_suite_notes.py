"""What suites say of themselves is so: numbers in `about` and `notes` are counted, and names in backticks exist."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from holdfast.cli.app import app
from holdfast.core.registry import registry
from holdfast.core.suites import Suite, load_suite, published_lists, suites
from holdfast.datasets.cifar import SIDE
from holdfast.datasets.imagenet_classes import names as imagenet_names
from holdfast.datasets.own_size import USUAL_CROP
from holdfast.store.published import benchmarks

WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "nine": 9, "ten": 10, "a thousand": 1000}
NUMBER = r"(\d[\d,.]*\d|\d|" + "|".join(WORDS) + ")"
CIFAR_LIKE = {"ten": "cifar10", "a thousand": "imagenet"}
# names of others, placeholders, and words of file formats, which nothing here can be asked about
FOREIGN = {"imagecorruptions", "model_info", "results", "name@image-size", "external", "unreliable", "make findings"}


def count(word: str) -> float:
    return WORDS[word] if word in WORDS else float(word.replace(",", ""))


def loaded(name: str) -> Suite:
    return load_suite(name, dataset="uci-digits" if name == "quick" else None)


def refs(suite: Suite, kind: str) -> list[str]:
    return [ref.name for text in suite.scenarios for ref in registry.scenario(text).changes if ref.kind == kind]


def column(suite: Suite, name: str) -> list[str]:
    return next(c for c in suite.board if c.name == name).every_scenario


def corruptions_at_severities(suite: Suite, corruptions: str, severities: str) -> bool:
    if not suite.scenarios:
        return True  # a list of published results has nothing to count
    clean = [text for text in suite.scenarios if not re.search(r"\+(mm5|pgd)", text)]
    by_name: dict[str, set[object]] = {}
    for scenario in map(registry.scenario, clean):
        for ref in (ref for ref in scenario.changes if ref.kind == "corruption"):
            by_name.setdefault(ref.name, set()).add(ref.arg("severity"))
        if scenario.dataset.name == "imagenet-c":  # the corruption is stored, not made
            by_name.setdefault(str(scenario.dataset.arg("corruption")), set()).add(scenario.dataset.arg("severity"))
    return len(by_name) == count(corruptions) and all(len(each) == count(severities) for each in by_name.values())


PARITY = Path(__file__).parents[3] / "docs" / "parity.md"
PUBLISHED_NAMES = {
    "LPIPS": ("ppgd", "lpa", "fast-lpa"),
    "Gabor": ("gabor-attack",),
    "snow": ("snow-attack",),
    "fog": ("fog-attack",),
}


def differ_by_at_most(_: Suite, attacks: str, points: str) -> bool:
    """Whether every difference that docs/parity.md measured of these attacks is so small."""
    table = PARITY.read_text().partition("### Published strength")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+)[^|]*\|[^|]*\|[^|]*\|[^|]*\|[^|]*\| ([+-][\d.]+) \[", table, flags=re.MULTILINE)
    for named in re.split(r", | and ", attacks):
        own = PUBLISHED_NAMES.get(named, (named.lower(),))
        measured = [abs(float(by)) for attack, by in rows if attack.startswith(own)]
        if not measured or max(measured) > count(points):
            return False
    return True


# what a note claims → whether it is so; the groups of the match are handed over
CLAIMS: dict[str, Callable[..., bool]] = {
    r"for others it is (0\.\d+) of the shorter side": lambda _, share: float(share) == USUAL_CROP,
    rf"ImageNet's {NUMBER} stand in": lambda _, n: len(imagenet_names()) == count(n),
    rf"models of {NUMBER} classes": lambda _, n: len(imagenet_names()) == count(n),
    r"images at (\d+)x(\d+)": lambda _, height, width: (int(height), int(width)) == (SIDE, SIDE),
    rf"{NUMBER} corruptions (?:of ImageNet-C )?at {NUMBER} severities": corruptions_at_severities,
    rf"{NUMBER} natural shifts": lambda suite, n: len(column(suite, "natural-accuracy")) == count(n),
    rf"{NUMBER} unforeseen attacks": lambda suite, n: len(column(suite, "ood-t-robustness")) == count(n),
    rf"{NUMBER} attacks at {NUMBER} radii": lambda suite, n, radii: (
        len(set(refs(suite, "attack"))) == count(n) and len(refs(suite, "attack")) >= count(n) * count(radii)
    ),
    rf"over {NUMBER} attacks, on": lambda suite, n: 1 + 20 * (len(suite.parts[0].scenarios) - 1) == count(n),
    rf"smallest of its {NUMBER} strengths": lambda suite, n: all(
        len(registry.scenario(text).changes[0].arg("radii")) == count(n) for text in suite.scenarios if "+" in text
    ),
    rf"The {NUMBER} unranked attacks": lambda suite, n: len(suite.only(["unranked"])) == count(n),
    rf"{NUMBER} images are taken, each class": lambda suite, n: suite.samples == count(n),
    rf"^{NUMBER} of the validation images": lambda suite, n: suite.samples == count(n),
    rf"the paper (?:takes the first|draws) {NUMBER}": lambda suite, n: suite.samples == count(n),
    rf"takes {NUMBER} images of a list": lambda suite, n: f"--samples {n.replace(',', '')}" in "".join(suite.notes),
    rf"from 0 to the logarithm of the number of classes \({NUMBER} for {NUMBER}\)": lambda suite, top, classes: (
        f"{math.log(count(classes)):.2f}" == top and suite.dataset == CIFAR_LIKE[classes]
    ),
    rf"all {NUMBER} logits, {NUMBER} kB per sample": lambda suite, n, kilobytes: (
        suite.logits == "all" and 2 * count(n) == 1000 * count(kilobytes)
    ),
    rf"with the {NUMBER} largest": lambda suite, n: count(n) == 10,
    rf"see {NUMBER} x {NUMBER} pixels": lambda suite, *sides: (
        {count(side) for side in sides} == {registry.bind("dataset", suite.dataset).arg("size")}
    ),
    rf"aims at {NUMBER} classes": lambda suite, n: (
        {ref.arg("targets") for text in suite.scenarios for ref in registry.scenario(text).changes if "-t-" in ref.name}
        == {count(n)}
    ),
    rf"all {NUMBER} classes everywhere": lambda suite, n: (
        count(n) == 1000 and "answers=own" not in str(suite.scenarios)
    ),
    rf"{NUMBER} steps, no restart": lambda suite, n: all(
        ref.arg("steps") == count(n) and dict(ref.args).get("restarts", 1) == 1
        for text in suite.scenarios
        for ref in registry.scenario(text).changes
        if ref.kind == "attack" and "steps" in dict(ref.args)
    ),
    rf"average corruption is the paper's: {NUMBER} corruptions in memory, {NUMBER} on disk": lambda suite, here, disk: (
        len(set(refs(suite, "corruption")) - {"greyscale"}) == count(here)
        and len({t for t in suite.scenarios if t.startswith("imagenet-c:") and t.endswith("=1")}) == count(disk)
    ),
    rf"without the {NUMBER} GB of ImageNet-C": lambda suite, n: count(n) == 70,
    rf"l2 radii are those for {NUMBER} pixels": lambda suite, n: (
        registry.bind("dataset", suite.dataset).arg("size") == count(n)
    ),
    rf"the two shapes {NUMBER} and {NUMBER}": lambda suite, *shapes: shapes == ("4", "9") and len(suite.scenarios) == 6,
    rf"have {NUMBER} classes": lambda suite, n: count(n) == 200,
    rf"{NUMBER} corruption cells, {NUMBER} attacks": lambda suite, cells, attacks: (
        len(suite.only(["corruptions"])) == count(cells) and len(suite.only(["attacks"])) == count(attacks)
    ),
    rf"The {NUMBER} attacks with cheaper": lambda suite, n: 1 + 20 * (len(suite.parts[0].scenarios) - 1) == count(n),
    rf"PGD of {NUMBER} steps of an eighth": lambda suite, n: (
        sum(f"steps={n},step_share=1/8" in text for text in suite.scenarios) == 2
    ),
    rf"PGD{NUMBER}, CW{NUMBER}, AutoAttack and MM{NUMBER}": lambda suite, pgd, cw, mm: (
        {f"pgd{pgd}", f"cw{cw}", f"mm{mm}"} <= {c.name.removeprefix("id-") for c in suite.board}
    ),
    rf"corruptions at severity {NUMBER}": lambda suite, n: (
        set(re.findall(r"severity=(\d)", " ".join(suite.scenarios))) == {n}
    ),
    rf"five of CIFAR-10 \({NUMBER}/255\) and five of ImageNet \(4/255\)": lambda suite, n: (
        f"radius={n}/255" in str(suite.scenarios)
    ),
    rf"holds {NUMBER} images of each class with {NUMBER} or more": lambda suite, per_class, at_least: (
        registry.bind("dataset", suite.dataset).arg("per_class") == count(per_class)
        and registry.bind("dataset", suite.dataset).arg("at_least") == count(at_least)
    ),
    rf"takes {NUMBER} pixels out of {NUMBER} for every model": lambda suite, size, resize: (
        registry.bind("dataset", "imagenet").arg("size") == count(size)
        and registry.bind("dataset", "imagenet").arg("resize") == count(resize)
    ),
    rf"those for {NUMBER} pixels at every size; the paper multiplies them by size / {NUMBER}": lambda suite, *sizes: (
        {count(size) for size in sizes} == {registry.bind("dataset", "imagenet").arg("size")}
    ),
    rf"docs/parity.md: (.*?) within {NUMBER} points": differ_by_at_most,
    rf"(fog) within {NUMBER} points, whose": differ_by_at_most,
    rf"on {NUMBER} environments": lambda suite, n: len([c for c in suite.board if not c.detail]) >= count(n),
}
NAMES = re.compile(
    r"`[^`]*`|oodrobustbench-cifar10-l(?:2|inf)|Tables? \d+(?:(?:, | and | to )\d+)*|Fig(?:ure|\.) \d\w?"
    r"|CIFAR-10(0|\.1|\.2|-C)?|CINIC-10|ResNet-50|ImageNetV2|mm5-linf|Table 1|Top-1"
    r"|\bone\b|\btwo\b(?! shapes)|l[12]\b"
)
NOTES = [(name, text) for name in [*suites(), *published_lists()] for text in (loaded(name).about, *loaded(name).notes)]


@pytest.mark.parametrize(("name", "text"), NOTES)
def test_every_number_in_a_note_is_counted(name: str, text: str) -> None:
    suite, covered = loaded(name), text
    for pattern, holds in CLAIMS.items():
        for match in re.finditer(pattern, text, flags=re.IGNORECASE):
            assert holds(suite, *match.groups()), match.group(0)
            covered = covered.replace(match.group(0), "")
    left = re.findall(r"\d[\d,.]*", NAMES.sub("", covered))
    assert not left, f"no claim of this test covers {left}"


@pytest.mark.parametrize(("name", "text"), NOTES)
def test_what_stands_in_backticks_exists(name: str, text: str) -> None:
    suite = loaded(name)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {*suites(), *published_lists(), *benchmarks(), *FOREIGN, *(c.name for c in suite.board)}
    file = Path((suites() | published_lists())[name]).read_text(encoding="utf-8")
    known |= set(re.findall(r"^(\w+) = ", file.partition("[lists]")[2], re.MULTILINE))
    for code in re.findall(r"`([^`]+)`", text):
        words = shlex.split(code)
        options = {word for word in words if word.startswith("--")}
        if words[0] == "holdfast":
            assert words[1] in commands, code
            assert options <= {o for p in commands[words[1]].params for o in p.opts}, code
        elif options:
            assert options <= {o for p in commands["evaluate"].params + commands["trend"].params for o in p.opts}, code
            if words[0] == "--part":
                assert suite.only([words[1]]), code
            if words[0] == "--stronger":
                assert load_suite(name, parameters={"published": "false"}).scenarios != suite.scenarios
        elif code.split(":")[0] in suites() and ":" in code:
            assert load_suite(code).scenarios, code
        elif any(code.split(":")[0] in registry.entries(kind) for kind in ("attack", "model")):
            pass  # an attack or a model, by its name
        elif code in {part.name for part in suite.parts}:
            pass
        elif code == "rest=true":
            assert "rest" in {p.name for p in registry.entries("dataset")["matched"].parameters}
        elif code.startswith("network="):
            assert load_suite(f"{name}:{code}").scenarios, code
        elif code not in known and not code.startswith("oodrobustbench-"):
            default = {"env": "diagvib", "answers": "cifar10"}.get(code.split("=")[0], "imagenet")
            registry.bind("dataset", code if re.match(r"[a-z0-9.-]+:", code) else f"{default}:{code}")


@pytest.mark.parametrize("name", sorted(suites()))
def test_a_suite_that_makes_frost_says_where_it_is_from(name: str) -> None:
    suite = loaded(name)
    makes_frost = "frost" in refs(suite, "corruption")
    assert any(note.startswith("Frost is cut out") for note in suite.notes) == (makes_frost and bool(suite.source))


def test_rows_keep_the_ten_largest() -> None:
    from holdfast.store.rows import TOP

    assert TOP == 10
