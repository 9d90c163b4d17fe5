from __future__ import annotations

from synthetic import add, fog, pgd

from holdfast.core.types import Flag
from holdfast.metrics.accuracy import Accuracy
from holdfast.metrics.compare import compare
from holdfast.metrics.unions import average_accuracy
from holdfast.site.cautions import cautions_of
from holdfast.site.model_results import model_results
from holdfast.site.statements import caution_statement, comparison_statement, statements
from holdfast.site.wording import basis, interval_text, percent_text, points_text
from holdfast.store.store import Store


def result(store: Store, model: str = "resnet18") -> dict[str, str]:
    found = model_results(store, model)
    return {one.topic: one.text for runs in [found.runs] for one in statements(runs, "cifar10")}


def test_every_sentence_has_the_numbers_of_the_metrics(store: Store) -> None:
    clean = add(store, 0.91)
    runs = {
        "Corrupted": add(store, 0.34, fog(5, "contrast")),
        "Attacked": add(store, 0.12, pgd(8 / 255)),
        "Corrupted and attacked": add(store, 0.05, fog(5), pgd(8 / 255)),
    }
    add(store, 0.80, fog(1, "contrast"))
    sentences = result(store)
    for topic, footer in {"Undisturbed": clean, **runs}.items():
        score = Accuracy()(store.read(footer.key))
        assert f"{percent_text(score)} " in sentences[topic]
        assert f"({interval_text(score)}, {basis(footer)})" in sentences[topic]
    for topic, footer in runs.items():
        lost = compare(store.read(footer.key), store.read(clean.key)).difference
        assert f"{points_text(lost).lstrip('−')} points below undisturbed" in sentences[topic]
        assert f"(difference {interval_text(lost)})" in sentences[topic]


def test_the_sentences_read_like_this(store: Store) -> None:
    add(store, 0.912, n=2000, population=2000)
    add(store, 0.341, fog(5, "contrast"), n=2000, population=2000)
    add(store, 0.12, pgd(8 / 255), n=2000, population=2000)
    assert [text.replace("\u00a0", " ") for text in result(store).values()] == [
        "Undisturbed, it gets 91.2 % right on cifar10 (89.9 to 92.4, 2,000 samples).",
        "Under the one corruption measured, contrast at severity 5, it gets 34.1 % right "
        "(32.0 to 36.2, 2,000 samples). "
        "That is 57.1 points below undisturbed on the same 2,000 samples (difference −59.3 to −54.9).",
        "Under attack (pgd-linf at radius 8/255, the radius it was trained for) 12.0 % stay right "
        "(10.6 to 13.5, 2,000 samples). "
        "That is 79.2 points below undisturbed on the same 2,000 samples (difference −80.9 to −77.4). "
        "This is an upper limit: a stronger attack may leave fewer.",
        "Corruption and attack together was not measured on cifar10, so nothing is claimed about it.",
    ]


def test_what_was_not_measured_is_said(store: Store) -> None:
    add(store, 0.5, fog(1))
    text = result(store)["Not measured"]
    for missing in ("The undisturbed images", "attacks", "corruption and attack together"):
        assert missing in text


def test_the_worst_is_named_with_those_that_cannot_be_told_from_it(store: Store) -> None:
    add(store, 0.9)
    runs = [add(store, 0.30, fog(5, "contrast")), add(store, 0.31, fog(5, "fog")), add(store, 0.80, fog(1, "snow"))]
    text = result(store)["Corrupted"]
    mean = average_accuracy([store.read(footer.key) for footer in runs])
    assert text.startswith(
        f"Over 3 corruption scenarios it gets {percent_text(mean)} right on average ({interval_text(mean)}). "
        "The worst is contrast at severity 5: 30"
    )
    assert "The intervals of 1 other overlap with it." in text


def test_a_part_of_the_samples_is_called_one(store: Store) -> None:
    add(store, 0.9, n=120, population=10_000)
    assert "120 of the 10,000 samples" in result(store)["Undisturbed"]


def test_a_difference_within_its_interval_is_not_claimed(store: Store) -> None:
    add(store, 0.9)
    add(store, 0.9, fog(1))
    assert "No difference to undisturbed is shown" in result(store)["Corrupted"]


def test_other_models_are_named_while_few_and_counted_when_many(store: Store) -> None:
    add(store, 0.7)
    assert comparison_statement(model_results(store, "resnet18")).text.startswith("No other model")
    add(store, 0.9, model="better")
    for i in range(3):
        add(store, 0.4, model=f"worse{i}")
    text = comparison_statement(model_results(store, "resnet18")).text
    assert text == "On the same samples, undisturbed it is better than 3 others and it is worse than better."


def test_caution_is_silent_only_when_there_is_nothing_to_say(store: Store) -> None:
    add(store, 0.9)
    assert caution_statement(cautions_of(model_results(store, "resnet18"))).text == (
        "Every run covers its whole dataset, no flag was raised and no sample failed."
    )
    add(store, 0.5, fog(1), n=50, reasons={0: "unreadable"}, flags=[Flag("odd", "note", "Odd.")])
    text = caution_statement(cautions_of(model_results(store, "resnet18"))).text
    assert "1 of 2 runs rests on a part of the samples" in text
    assert "1 kind of flag was raised (odd)" in text
    assert "1 sample failed" in text
