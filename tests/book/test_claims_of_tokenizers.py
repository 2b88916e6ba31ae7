"""What the text of chapter 1 states, tried on other texts, chains and seeds, with the chapter's own functions."""

import re
from collections import Counter
from functools import cache

import pytest
import torch
from chapter_imports import imported
from hypothesis import given, settings
from hypothesis import strategies as st

from bookbinder import ROOT, notebooks
from llm_anatomy.data import table
from llm_anatomy.models.presets import preset, presets
from llm_anatomy.tokenizers.bpe import BPE, first_seen
from llm_anatomy.tokenizers.pretokenization import NoSplit
from llm_anatomy.tokenizers.simple import ByteTokenizer, WordTokenizer
from llm_anatomy.training.data.stories import stories, story_text

OFTEN = settings(deadline=None, derandomize=True, database=None, max_examples=200)


@cache
def cell(opening):
    """The source of the chapter's cell that contains this line."""
    [page] = [page for page in notebooks.pages(ROOT) if page.docname == "book/tokenizers/tokenizers"]
    return next(cell.source for cell in page.code if opening in cell.source)


def functions(opening, **known):
    """The functions that the chapter's cell defines, without what it runs afterwards."""
    names = imported("tokenizers/tokenizers") | known
    exec(re.split(r"\n\n\n(?!def )", cell(opening))[0], names)
    return names


# --- Receding horizon ---


@pytest.mark.syllabus("UCL-02")
@pytest.mark.parametrize("seed", range(3))
def test_two_symbols_of_context_suffice_for_a_chain_of_order_two(seed, capsys):
    chain = "P = torch.rand(2, 2, 2, generator=torch.Generator().manual_seed(seed)); P /= P.sum(-1, keepdim=True)"
    other = re.sub(r"^P = .*$", chain, cell("five = torch.einsum"), flags=re.MULTILINE)
    exec(other, imported("tokenizers/tokenizers") | {"seed": seed})
    lost = [float(number) for number in re.findall(r": ([\d.]+) bits", capsys.readouterr().out)]
    assert lost[0] > 1e-3 and lost[1:] == [0, 0]


# --- Loss ---


def unigram_loss(tokenizer, text, held_out):
    known = functions("def unigram_loss(", text=text, held_out=held_out)
    return known["unigram_loss"](tokenizer)


@pytest.mark.syllabus("UCL-03", "UCL-09")
@pytest.mark.parametrize("seed", [1, 2])
def test_losses_per_token_rise_and_bits_per_character_fall(seed):
    text, held_out = story_text(60_000, seed=seed), "\n\n".join(stories(seed=seed, first=5000, n=20))
    tokenizers = [BPE.train([text], n) for n in (256, 512, 1024, 1536)]
    nats = [unigram_loss(tokenizer, text, held_out) for tokenizer in tokenizers]
    bits = [loss * len(t.encode(held_out)) for loss, t in zip(nats, tokenizers, strict=True)]
    assert nats == sorted(nats) and bits == sorted(bits, reverse=True)


@pytest.mark.syllabus("UCL-06")
def test_fewer_known_words_give_a_lower_loss():
    text, held_out = story_text(60_000, seed=1), "\n\n".join(stories(seed=1, first=5000, n=20))
    losses = [unigram_loss(WordTokenizer.train([text], n), text, held_out) for n in (700, 300, 100)]
    assert losses == sorted(losses, reverse=True)


# --- Byte pair encoding in fifteen lines, and the lecture's program ---


@pytest.mark.syllabus("UCL-07")
@OFTEN
@given(text=st.text(alphabet="aabc d", min_size=2, max_size=40), n_merges=st.integers(1, 12))
def test_the_fifteen_lines_learn_what_the_package_learns(text, n_merges):
    tokenizer = BPE.train([text], 256 + n_merges, pre_tokenizer=NoSplit(), tie_break=first_seen)
    n_merges = len(tokenizer.merges)
    merges, tokens = functions("def learn(")["learn"](text, n_merges)
    assert [left + right for left, right in merges] == [token.decode() for token in tokenizer.vocabulary[256:]]
    assert tokens == [tokenizer.decode([i]) for i in tokenizer.encode(text)]


@pytest.mark.syllabus("UCL-08")
@OFTEN
@given(text=st.text(alphabet="aaab éZ人", min_size=2, max_size=40), n_merges=st.integers(1, 20))
def test_the_lectures_program_loses_nothing(text, n_merges):
    known = functions("def new_token(")
    encoded, pairs = text, {}
    for _ in range(n_merges):
        if len(encoded) < 2:
            break
        encoded, pairs = known["new_token"](encoded, pairs)
    assert known["decode"](encoded, pairs) == text
    assert len(encoded) < len(text) and not set(pairs.values()) & set(text)


@pytest.mark.syllabus("UCL-08")
def test_the_lectures_program_runs_out_of_symbols_below_the_smallest_character():
    known = functions("def new_token(")
    for smallest in " !A":
        encoded, pairs = smallest + "".join(f"{chr(0x4E00 + i)}x" for i in range(300)), {}
        with pytest.raises(ValueError, match="chr"):
            while True:
                encoded, pairs = known["new_token"](encoded, pairs)
        assert len(pairs) == ord(smallest)
    with pytest.raises(AttributeError, match="no attribute 'first'"):
        known["substitute"]("aaab", ("a", "a"))


# --- Ten languages ---


@pytest.mark.syllabus("UCL-09", "UCL-05")
@pytest.mark.parametrize("n_vocab", [448, 512, 640])
def test_a_balanced_tokenizer_narrows_what_languages_cost(n_vocab):
    story = {}
    for row in table("parallel_story"):
        story.setdefault(row["language"], []).append(row["text"])
    assert {len(lines) for lines in story.values()} == {12} and len(story) == 10
    english, totals = BPE.train([story_text(60_000, seed=3)], n_vocab), {"bytes": Counter(), "english": Counter()}
    totals["balanced"] = Counter()
    for left_out in range(12):
        rest = [line for lines in story.values() for i, line in enumerate(lines) if i != left_out]
        tokenizers = {"bytes": ByteTokenizer(), "english": english, "balanced": BPE.train(rest, n_vocab)}
        for name, tokenizer in tokenizers.items():
            for language, lines in story.items():
                totals[name][language] += len(tokenizer.encode(lines[left_out]))
    worst = {name: max(counts.values()) / counts["English"] for name, counts in totals.items()}
    assert worst["balanced"] < 1.6 < 2 < worst["bytes"] < 3.5 < worst["english"]
    assert all(counts["Hindi"] == max(counts.values()) for name, counts in totals.items() if name != "balanced")


# --- How large a vocabulary ---


@pytest.mark.syllabus("UCL-09")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_of_few_and_of_many_tokens_half_never_occur(seed, capsys):
    text, held_out = story_text(60_000, seed=seed), "\n\n".join(stories(seed=seed, first=5000, n=10))
    sizes = (256, 512, 1024, 1536)
    names = imported("tokenizers/tokenizers") | {"text": text, "held_out": held_out, "sizes": sizes}
    names["trained"] = {n: BPE.train([text], n) for n in sizes}
    exec(cell("rates = {n: metrics").replace("1792", "1536"), names)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    never, median = [int(row[-2]) for row in printed], [int(row[-1]) for row in printed]
    for n, zeros, middle in zip(sizes, never, median, strict=True):
        ids = torch.tensor(names["trained"][n].encode(text))
        counts = ids.bincount(minlength=n).sort().values
        assert len(counts) == n and zeros == (counts == 0).sum() and middle == counts[n // 2]
    assert never[0] > 128 and median[0] == 0
    assert median[1] > median[2] > median[3] and never[3] > 0.4 * 1536


# --- What models chose ---


@pytest.mark.syllabus("GT-41")
def test_the_printed_tables_of_embeddings_have_the_sizes_of_the_presets(capsys):
    rows = table("vocab_sizes")
    exec(cell("its width is not public"), imported("tokenizers/tokenizers") | {"rows": rows})
    printed = re.findall(r"^(\S+) +(\d+) rows, +(\d+) million$", capsys.readouterr().out, re.MULTILINE)
    assert [name for name, *_ in printed] == [row["preset"] for row in rows if row["model"] != "GPT-4"]
    for name, n_rows, millions in printed:
        with torch.device("meta"):
            embedding = torch.nn.Embedding(preset(name).n_vocab, preset(name).d_model)
        assert int(n_rows) == embedding.num_embeddings
        assert int(millions) == round(embedding.weight.numel() / 1e6)


@pytest.mark.syllabus("GT-41", "UCL-09", "UCL-13")
def test_a_row_that_differs_from_its_preset_says_why():
    more_rows = {}
    for row in table("vocab_sizes"):
        n_rows = presets()[row["preset"]].values["n_vocab"]
        if n_rows != row["n_vocab_corrected"]:
            assert f"the table of embeddings has {n_rows:,} rows" in row["notes"]
            more_rows[row["model"]] = n_rows - row["n_vocab_corrected"]
    assert more_rows == {"mT5": 112, "BLOOM": 200, "DeepSeek": 2400}
    for row in table("embedding_sizes"):
        values = presets()[row["preset"]].values
        n, d = values["n_vocab"], values["d_model"]
        assert (n, d, n * d) == (row["n_voc_corrected"], row["d_emb_corrected"], row["embedding_params_corrected"])
    for row in table("vocab_context"):
        values = presets()[row["preset"]].values
        assert row["n_voc_exact"] in (None, values["n_vocab"])
        assert row["n_ctx_exact"] in (None, values["n_ctx"])


@pytest.mark.syllabus("GT-41")
def test_two_of_the_five_vocabularies_in_the_lower_band_are_shared_by_languages():
    group = [row for row in table("vocab_sizes") if row["group"].startswith("monolingual")]
    assert len(group) == 5 and [row["model"] for row in group if "shared by English" in (row["notes"] or "")] == [
        "Original Transformer",
        "T5 and T5 v1.1",
    ]
    assert "Both languages" in presets()["transformer-base"].notes
    assert "Five monolingual ones" not in cell("Do vocabularies keep to the two ranges?")
