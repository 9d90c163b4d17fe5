"""Other people's code: plug-ins and models that crash or exit, and code that a store names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError
from holdfast.engine.evaluate import evaluate
from holdfast.engine.gallery import explain
from holdfast.engine.plan import plan
from holdfast.models import wrap
from holdfast.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


PLUGINS = {
    "a_crash": "raise ValueError('broken on purpose')",
    "b_exit": "import sys; sys.exit(3)",
    "c_syntax": "def (",
    "d_clash": "from holdfast.core.registry import register\n@register('attack', 'pgd-linf')\ndef other(): ...",
    "e_quit": "raise SystemExit",
    "f_fine": (
        "from holdfast.core.registry import register\n"
        "from holdfast.attacks.recipes.pgd_variants import fgsm\n"
        "@register('attack', 'mine')\ndef mine(*, radius: float = 0.1):\n    return fgsm(radius=radius)"
    ),
}


def test_a_plug_in_that_crashes_or_exits_is_named_and_the_rest_works(tmp_path: Path) -> None:
    for name, content in PLUGINS.items():
        (tmp_path / f"{name}.py").write_text(content)
    (tmp_path / "f_end.py").write_text("import os\nos._exit(0)\n")
    words = [sys.executable, "-m", "holdfast", "list", "attacks", "--json"]
    import os

    environment = os.environ | {"HOLDFAST_PLUGINS": str(tmp_path)}
    answer = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr
    assert '"mine"' in answer.stdout
    assert '"pgd-linf"' in answer.stdout
    assert "Traceback" not in answer.stderr
    for name in ("a_crash", "b_exit", "c_syntax", "d_clash", "e_quit", "f_end"):
        assert f"{name}.py is left out" in answer.stderr
    assert "broken on purpose" in answer.stderr


class Leaving(nn.Module):
    """Ends the process as soon as it sees an image."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.last, self.error = nn.Linear(28 * 28, 10), error

    def forward(self, images: Tensor) -> Tensor:
        raise self.error


@pytest.mark.parametrize("error", [SystemExit, RuntimeError])
def test_a_model_that_exits_is_a_failed_run_and_others_go_on(
    error: type[BaseException], store: Store, tiny_data: Callable[..., str]
) -> None:
    data = tiny_data(n=10)
    leaving = wrap(Leaving(error), name="leaving", classes=10, channels=1)
    failed, fine = evaluate([leaving, "fashion-standard"], data, store=store)
    assert failed.rows is None
    assert error.__name__ in str(failed.error)
    assert fine.rows is not None
    assert [run.state for run in plan([leaving], [data], store=store)] == ["cannot run"]


@pytest.mark.parametrize(
    "content",
    ["import sys; sys.exit(0)", "def make():\n    raise SystemExit(0)", "import os\nmake = os._Environ.nothing"],
)
def test_code_that_exits_as_it_loads_is_an_error(
    content: str, run: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"leaving_{abs(hash(content))}"
    (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    answer = run("check", f"python:{name}:make")
    assert answer.code == 1, answer  # type: ignore[attr-defined]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store) -> tuple[Store, str, Path]:
    """A store with a run of a model that is code, the run's key, and what the code leaves when it runs."""
    (tmp_path / "stored_code.py").write_text(
        "from pathlib import Path\n"
        "from holdfast.models import load\n"
        f"def make():\n    Path({str(tmp_path / 'ran')!r}).touch()\n    return load('fashion-standard')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (outcome,) = evaluate("python:stored_code:make", "fashion-mnist-2k", store=store, samples=10, pictures=0)
    assert outcome.rows is not None
    (tmp_path / "ran").unlink()
    return store, outcome.rows.footer.key, tmp_path / "ran"


def test_code_that_a_store_names_runs_only_when_trusted(
    measured: tuple[Store, str, Path], run: Callable[..., object]
) -> None:
    store, key, ran = measured
    sample = store.read(key).ids[0]
    with pytest.raises(HoldfastError, match="names code to run"):
        explain(store, key, sample)
    refused = run("explain", key, sample, "--store", store.url)
    assert refused.code == 1  # type: ignore[attr-defined]
    assert "--trust" in refused.err  # type: ignore[attr-defined]
    for words in (
        ("report", "python:stored_code:make"),
        ("scores",),
        ("status",),
        ("verify",),
        ("site", "-o", "pages"),
    ):
        assert run(*words, "--store", store.url).code == 0  # type: ignore[attr-defined]
    assert not ran.exists(), "no command that reads a store runs what it names"
    assert run("explain", key, sample, "--store", store.url, "--trust").code == 0  # type: ignore[attr-defined]
    assert ran.exists()


def test_a_bundled_model_needs_no_trust(store: Store) -> None:
    (outcome,) = evaluate("fashion-standard", "fashion-mnist-2k", store=store, samples=10, pictures=0)
    assert outcome.rows is not None
    assert explain(store, outcome.rows.footer.key, outcome.rows.ids[0]).as_stored
