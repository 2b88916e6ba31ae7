"""What the text of chapter 10 states about LLaMA's widths and Shazeer's models, from the presets."""

import re

import pytest
from chapter_imports import imported

from bookbinder import ROOT, notebooks
from llm_anatomy.models.presets import preset

[PAGE] = [page for page in notebooks.pages(ROOT) if page.docname == "book/feedforward/feedforward"]


def text_of(heading):
    """The Markdown of a section, on one line."""
    sources = [cell.source for cell in PAGE.cells if cell.cell_type == "markdown"]
    whole = re.split(r"\n(?=#+ )", "\n" + "\n\n".join(sources))
    [section] = [part for part in whole if part.lstrip("\n").startswith(heading)]
    return " ".join(section.split())


def exact_rule(name):
    """The smallest multiple of 256 that is at least two thirds of four times the width."""
    return -(-(8 * preset(name).d_model // 3) // 256) * 256


@pytest.mark.syllabus("GT-25", "CMU-06")
def test_the_small_models_of_llama_2_keep_llamas_width(capsys):
    [cell] = [cell.source for cell in PAGE.code if '"llama-7b", "llama-13b"' in cell.source]
    exec(cell, imported("feedforward/feedforward"))
    printed = capsys.readouterr().out
    for name in ("llama-2-7b", "llama-2-13b"):
        assert preset(name).d_ff == exact_rule(name) == preset(name.replace("-2", "")).d_ff
        assert f"{name:12s}{preset(name).d_ff:5d} True\n" in printed
    for name in ("llama-2-70b", "llama-3-8b"):
        assert round(preset(name).d_ff / exact_rule(name), 2) == 1.30
    section = text_of("## The same number of parameters")
    assert "The 7B and 13B models of Llama 2 still follow the rule" in section
    assert "later models" not in section


@pytest.mark.syllabus("CMU-06", "GT-25")
def test_the_small_models_of_llama_2_do_not_put_more_of_a_block_into_the_feed_forward_layer():
    def share(name):
        c = preset(name)
        attention, feedforward = 2 * c.d_model * c.d_head * (c.n_heads + c.n_kv_heads), 3 * c.d_model * c.d_ff
        return feedforward / (attention + feedforward)

    assert share("llama-2-7b") == share("llama-7b") and share("llama-2-13b") == share("llama-13b")
    assert min(share("llama-2-70b"), share("llama-3-8b")) > 0.8 > 0.7 > share("llama-65b")


@pytest.mark.syllabus("CMU-07", "GT-26")
def test_shazeers_models_are_encoder_decoders_that_fill_gaps():
    assert preset("t5-base").kind == "encoder-decoder"
    assert (preset("t5-base").d_model, preset("t5-base").d_ff) == (768, 3072)
    opening, section = text_of("## What you will have at the end"), text_of("## The table (CMU-07")
    assert "language model" not in opening and "encoder–decoder that fills gaps" in opening
    assert "*span corruption*" in section and "not to predict the next token" in section
    assert "fills gaps, where our models predict the next token" in text_of("## A replication")
