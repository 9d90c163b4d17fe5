"""Words of other libraries are answered with ours, and a thing in the wrong position says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.patterns import expanded
from holdfast.core.registry import registry


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("pgd-linf:eps=8/255", "radius"),
        ("pgd-linf:epsilon=8/255", "radius"),
        ("pgd-linf:nb_iter=3", "steps"),
        ("pgd-l2:alpha=0.1", "step"),
        ("square-linf:n_queries=100", "queries"),
        ("apgd-ce-linf:n_restarts=2", "restarts"),
    ],
)
def test_parameters_of_other_libraries(text: str, ours: str) -> None:
    with pytest.raises(Misuse, match="has no parameter") as caught:
        registry.bind("attack", text)
    assert ours in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("PGD-Linf", "pgd-linf"),
        ("Linf", "linf"),
        ("AutoAttack", "autoattack-linf"),
        ("LinfPGD", "pgd-linf"),
        ("PGDL2", "pgd-l2"),
        ("pgd:norm=Linf", "pgd-linf"),
        ("autoattack:norm=L2", "autoattack-l2"),
        ("apgd-ce", "apgd-ce-linf"),
        ("cw", "cw-linf"),
    ],
)
def test_attacks_of_other_libraries(text: str, ours: str) -> None:
    for bind in (registry.bind_change, lambda name: registry.bind("attack", name)):
        with pytest.raises(Misuse, match=r"no (corruption or )?attack named") as caught:
            bind(text)
        assert ours in str(caught.value.hint)
        assert "ppgd" not in str(caught.value.hint)


def test_the_norm_is_part_of_the_name() -> None:
    for word in ("norm", "ord", "p"):
        with pytest.raises(Misuse, match="has no parameter") as caught:
            registry.bind("attack", f"pgd-linf:{word}=2")
        assert "the norm is part of an attack's name" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("model", "best.pt", "file:best.pt,architecture="),
        ("model", "./runs/best.ckpt", "file:./runs/best.ckpt,"),
        ("model", "/tmp/w.safetensors", "file:/tmp/w.safetensors`"),
        ("model", "net.onnx", "onnx:net.onnx"),
        ("model", "net.pt2", "pt2:net.pt2"),
        ("dataset", "val.csv", "csv:val.csv"),
        ("dataset", "x.npz", "arrays:x.npz"),
        ("dataset", "birds", "folder:birds,size=224"),
        ("dataset", "./birds", "folder:./birds,size=224"),
    ],
)
def test_a_path_is_answered_with_the_source_that_reads_it(
    kind: str, name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("birds").mkdir()
    with pytest.raises(Misuse, match=f"no {kind} named") as caught:
        registry.bind(kind, name)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pgd-linf:radius=8/255", "`pgd-linf` is an attack: put a dataset before it"),
        ("fog:severity=3", "`fog` is a corruption: put a dataset before it"),
        ("fashion-standard", "`fashion-standard` is a model, not a dataset"),
        ("fashion-mnist-2k+cifar10", "`cifar10` is a dataset"),
    ],
)
def test_a_part_in_the_wrong_position(text: str, problem: str) -> None:
    with pytest.raises(HoldfastError, match=problem):
        registry.scenario(text)


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a{+mix:[b,c],+d}", ["a+mix:[b,c]", "a+d"]),
        ("{worst-of:attacks=[(x:r=1,s=2),y],z}", ["worst-of:attacks=[(x:r=1,s=2),y]", "z"]),
        ("radii=[{1,2},3]", ["radii=[1,3]", "radii=[2,3]"]),
        ("{a{[1,2],3},b}", ["a[1,2]", "a3", "b"]),
        ("{[a,b}", ["[a", "b"]),
        ("{(a],b)}", ["(a],b)"]),
    ],
)
def test_commas_inside_brackets_part_no_alternatives(pattern: str, texts: list[str]) -> None:
    assert expanded(pattern) == texts


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=4))
def test_lists_are_alternatives_as_they_are(lists: list[list[str]]) -> None:
    texts = [f"[{','.join(items)}]" for items in lists]
    assert expanded("{" + ",".join(texts) + "}") == texts


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("d{,+pgd-linf:radius=8/255,steps=5}", ["d", "d+pgd-linf:radius=8/255,steps=5"]),
        ("d+{a:r={1,2},steps=5,fgsm}", ["d+a:r=1,steps=5", "d+a:r=2,steps=5", "d+fgsm"]),
        ("d+{x:attack=(a:r=1,s=2),radii=[1,2],y}", ["d+x:attack=(a:r=1,s=2),radii=[1,2]", "d+y"]),
        ("d:r=1,{s=1,s=2}", ["d:r=1,s=1", "d:r=1,s=2"]),
        ("{file:a,mine=file:b}", ["file:a", "mine=file:b"]),
        ("{a,b=c}", ["a", "b=c"]),
        ("d+{a:r=1+b,s=1}", ["d+a:r=1+b", "d+s=1"]),
    ],
)
def test_further_arguments_belong_to_the_alternative_before(pattern: str, texts: list[str]) -> None:
    assert expanded(pattern) == texts
