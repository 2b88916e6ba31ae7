"""The translation experiment: its models, what it measures, its tables, and the Transformer that it has stored."""

import csv

import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.evaluation.paired import paired_difference
from llm_anatomy.evaluation.text_metrics import bleu
from llm_anatomy.models.generation import generate
from llm_anatomy.training.data.translation import Pair
from llm_anatomy.training.experiments import translation
from llm_anatomy.training.experiments.runs import results
from llm_anatomy.training.experiments.translation import (
    CLAUSES,
    COLUMNS,
    HELD_OUT,
    MODELS,
    N_TRAINING,
    PAD,
    START,
    STOP,
    TRAINING,
    Translator,
    alignment_rates,
    as_ids,
    attention_of,
    baseline_rates,
    batches,
    copied,
    copy_examples,
    copy_run,
    held_out,
    measured,
    run,
    sentences,
    stored_translator,
    training_sha256,
    translate,
    translation_loss,
    translator_of,
    vocabulary,
)

ATTENTIVE = ("transformer", "lstm_attention")


def some_examples(n_clauses=2, n=5):
    return as_ids(sentences(HELD_OUT, n_clauses, n), vocabulary())


def test_no_test_sentence_is_trained_on_and_every_word_is_known():
    training = {one.english for n in CLAUSES for one in sentences(TRAINING, n, N_TRAINING)}
    assert not training & {one.english for one in held_out()}
    assert not {one.english for one in held_out()} & {one.english for one in held_out(validation=True)}
    source, target = as_ids(held_out(), vocabulary())
    assert (target[:, 0] == START).all() and ((target == STOP).sum(1) == 1).all()
    assert ((source == STOP).sum(1) == 1).all()


@pytest.mark.syllabus("IITD-44")
@pytest.mark.parametrize("name", MODELS)
def test_padding_of_the_source_and_later_target_words_change_nothing(name):
    model, (source, target) = translator_of(name, len(vocabulary()), seed=1), some_examples()
    with torch.no_grad():
        logits = model(target[:, :-1], source)
        assert torch.allclose(model(target[:, :-1], F.pad(source, (0, 3))), logits, atol=1e-5)
        changed = target.clone()
        changed[:, 4:] = 3
        assert torch.allclose(model(changed[:, :-1], source)[:, :4], logits[:, :4], atol=1e-5)
        assert not torch.allclose(model(target[:, :-1], source.roll(1, 0)), logits, atol=1e-2)


@pytest.mark.syllabus("UCL-31", "IITD-45")
@pytest.mark.parametrize("name", ATTENTIVE)
def test_weights_are_distributions_over_the_words_of_the_source(name):
    model, (source, target) = translator_of(name, len(vocabulary())), some_examples(n=4)
    with torch.no_grad():
        weights = model.attend(target, source)
    n_layers, n_heads = (2, 4) if name == "transformer" else (1, 1)
    assert weights.shape == (n_layers, 4, n_heads, target.shape[1], source.shape[1])
    assert torch.allclose(weights.sum(-1), torch.ones(1))
    for row, ids in enumerate(source):
        assert not weights[:, row, :, :, ids == PAD].any()


def test_the_wider_lstm_and_the_one_with_attention_differ_in_that_alone():
    sizes = {name: sum(p.numel() for p in translator_of(name, len(vocabulary())).parameters()) for name in MODELS}
    assert sizes["transformer"] < sizes["lstm"] < sizes["lstm_attention"] < sizes["lstm_wide"]
    assert sizes["lstm_attention"] - sizes["lstm"] == 2 * 64 * 64 + 64 + 2 * 64 * 64 + 64


def test_a_loss_counts_words_and_no_padding():
    model, (source, target) = translator_of("lstm", len(vocabulary())), some_examples(n_clauses=1)
    each = [
        translation_loss(model, (s[s != PAD][None], t[t != PAD][None])).item()
        for s, t in zip(source, target, strict=True)
    ]
    n_words = (target[:, 1:] != PAD).sum(1)
    expected = (torch.tensor(each) * n_words).sum() / n_words.sum()
    assert translation_loss(model, (source, target)).item() == pytest.approx(expected.item(), rel=1e-5)


def test_batches_are_drawn_from_each_set_and_trimmed():
    examples = [as_ids(sentences(TRAINING, n_clauses, 40), vocabulary()) for n_clauses in CLAUSES]
    drawn = batches(examples, 3, torch.Generator().manual_seed(0))
    widths = set()
    for source, target in (next(drawn) for _ in range(30)):
        assert len(source) == 3 and (source[:, -1] != PAD).any() and (target[:, -1] != PAD).any()
        widths.add(source.shape[1])
    assert min(widths) < 14 and max(widths) > 24


def test_training_can_be_repeated_and_lowers_the_loss():
    first, again = (run("transformer", seed=1, n_steps=8, max_lr=1e-2) for _ in range(2))
    batch = some_examples()
    assert torch.equal(first.model.embedding.weight, again.model.embedding.weight)
    with torch.no_grad():
        before = translation_loss(translator_of("transformer", len(vocabulary()), seed=1), batch)
        assert translation_loss(first, batch) < before - 0.1


def test_a_translation_is_what_the_package_generates():
    model, _ = stored_translator()
    some, words = sentences(HELD_OUT, 2, 4), vocabulary()
    source, _ = as_ids(some, words)
    found = translate(model, source, max_new_tokens=40)
    each = [ids[ids != PAD].tolist() for ids in source]
    expected = generate(model.model, [[START]] * 4, sources=each, max_new_tokens=40, stop_token_ids=[STOP]).ids
    assert [[i for i in row if i != PAD] for row in found.tolist()] == expected


@pytest.mark.syllabus("IITD-44")
def test_a_sentence_is_right_with_teacher_forcing_if_and_only_if_it_is_right_in_free_generation():
    model, _ = stored_translator()
    found = measured(model, held_out()[::8], vocabulary())
    forced, free = ((found[name] | ~found["is_word"]).all(1) for name in ("forced", "free"))
    assert torch.equal(forced, free) and 0 < forced.float().mean() < 1


@pytest.mark.syllabus("UCL-31")
def test_perfect_attention_has_no_errors_and_its_step_matters():
    class Aligned(Translator):
        def attend(self, ids, source):
            weights = torch.zeros(1, len(ids), 1, ids.shape[1], source.shape[1])
            for row, one in enumerate(some):
                for i, j in one.sure:
                    weights[0, row, 0, j, i] = 1
            return weights

    some = sentences(HELD_OUT, 1, 6)
    rates = {step: rate for _, _, step, rate in alignment_rates(Aligned(), some, vocabulary())}
    assert rates["predicted"] == 0 and rates["read"] > 0.7


def test_the_expected_rate_of_uniform_links_is_that_of_drawn_ones():
    some = [Pair(("a", "b", "c"), ("x", "y"), ((0, 1), (1, 0), (2, 0)))]
    drawn = torch.cartesian_prod(torch.arange(3), torch.arange(3)).tolist()
    mean = sum(translation._error_rate([[(i, 0), (k, 1)]], some) for i, k in drawn) / 9
    assert baseline_rates(some)["uniform"] == pytest.approx(mean)


def test_the_copy_task_is_learned_for_short_texts():
    source, target = copy_examples(4, 7, torch.Generator().manual_seed(0))
    assert torch.equal(source, target[:, 1:]) and source.min() >= STOP
    model = copy_run("lstm", 32, seed=0, n_steps=150)
    assert copied(model, 1)[0] > 0.8 > 0.5 > copied(model, 20)[0]


@pytest.mark.syllabus("UCL-31", "IITD-45")
def test_the_stored_transformer_translates_as_well_as_its_table_says():
    model, about = stored_translator()
    assert about["words"] == vocabulary() and about["training_sha256"] == training_sha256()
    assert about["command"] == translation.COMMAND
    some = held_out()
    found = measured(model, some, vocabulary())
    (row,) = (row for row in table("translation_scores") if row["model"] == "stored")
    assert bleu(found["translations"], [" ".join(one.tolva) for one in some]) == pytest.approx(row["bleu"], abs=0.5)
    exact = (found["free"] | ~found["is_word"]).all(1).float().mean().item()
    assert exact == pytest.approx(row["exact"], abs=0.01) and about["seed"] == row["seed"] == 0
    whole = results("translation_scores", "bleu", model="transformer", seed=0).item()
    assert row["bleu"] == pytest.approx(whole, abs=2)  # with 8 bits it translates as well as with 32


def test_what_the_widget_gets_fits_the_sentence():
    model, _ = stored_translator()
    one = sentences(HELD_OUT, 1, 1)[0]
    shown = attention_of(model, one, vocabulary())
    assert shown["weights"].shape == (8, len(one.tolva), len(one.english))
    assert torch.allclose(shown["weights"].sum(-1), torch.ones(1))


@pytest.mark.syllabus("UCL-30")
def test_the_bottleneck_shows_in_the_stored_tables():
    """The claims of the chapter: each holds for every seed."""

    def losses(model, n_words):
        return results("translation_lengths", model=model, n_words=n_words)

    for model, other in (("lstm", "lstm_attention"), ("lstm", "lstm_wide"), ("lstm", "transformer")):
        assert paired_difference(losses(model, 20), losses(other, 20)).low > 0
    rise = paired_difference(losses("lstm", 25), losses("lstm", 5))
    assert rise.low > paired_difference(losses("lstm_attention", 25), losses("lstm_attention", 5)).high
    best = min(row["error_rate"] for row in table("translation_alignment") if row["model"] == "transformer")
    baselines = [row["error_rate"] for row in table("translation_alignment") if row["model"] in ("diagonal", "uniform")]
    assert len(baselines) == 2 and best < min(baselines) / 2


def test_the_command_writes_every_table(tmp_path, monkeypatch):
    monkeypatch.setattr(translation, "COPY_MODELS", (("lstm", 4),))
    monkeypatch.setattr(translation, "COPY_STEPS", 2)
    monkeypatch.setattr(translation, "MAX_LRS", (1e-2,))
    monkeypatch.setattr(translation, "N_TEST", 8)
    command = ["experiment", "translation", "--seeds", "0", "--steps", "3", "--out", str(tmp_path)]
    assert main(command) == 0
    for name, columns in COLUMNS.items():
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        assert rows and list(rows[0]) == columns == list(table(name)[0]), name
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["translation.safetensors"]


def test_another_model_is_refused():
    with pytest.raises(ValueError, match="name='gru' must be one of transformer, lstm, lstm_wide, lstm_attention"):
        translator_of("gru", n_vocab=9)
