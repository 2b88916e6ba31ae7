"""Block diagrams: what they draw of a config, what they say differs, and what they refuse."""

import dataclasses
import itertools
import re
from xml.etree import ElementTree

import pytest

from llm_anatomy.config import (
    ClippingConfig,
    LatentAttentionConfig,
    LayerNormConfig,
    ModelConfig,
    MoEConfig,
    RopeConfig,
    types_of,
)
from llm_anatomy.models.presets import find, preset, presets
from llm_anatomy.notebook import block_diagram
from llm_anatomy.notebook.block_diagrams import NOT_DRAWN, boxes, design, sizes, slots
from llm_anatomy.notebook.figures import PALETTE
from llm_anatomy.notebook.front_end import DARK
from llm_anatomy.registry import PARTS

SIZES = dict(d_model=24, n_layers=2, n_heads=4, d_ff=64, n_vocab=101, n_ctx=32)
SMALL = ModelConfig(**SIZES)
KNOWN = {name: record.config() for name, record in presets().items() if record.known}
FAMILIES = ["transformer-base", "bert-base", "t5-11b", "gpt-neox", "gpt-j", "gemma-2-9b", "deepseek-v2", "olmo-7b"]


def svg(diagram):
    return ElementTree.fromstring(re.search("<svg.*</svg>", diagram.html(), re.DOTALL)[0])


def columns(diagram):
    """The boxes of each model: whether a box is filled, and its words."""
    found = []
    for column in svg(diagram).findall("g"):
        drawn = [
            (group.attrib["class"], [text.text for text in group.findall("text")]) for group in column.findall("g")
        ]
        found.append([("la-equal" not in name, " ".join(words)) for name, words in drawn])
    return found


def order_of(config):
    """The rows of a block, from top to bottom."""
    return [row for row in slots() if row in boxes(config)]


@pytest.mark.syllabus("GT-11")
def test_the_original_transformer_beside_llama_differs_as_the_lecture_lists():
    diagram = block_diagram(find("transformer-base"), find("llama-7b"))
    assert diagram.differences == {
        "kind": ("encoder-decoder", "decoder"),
        "embeddings": ("one table for input and output, scaled by √d_model", "a table of their own for the output"),
        "positions": ("sinusoidal, added to the embeddings", "RoPE"),
        "norm": ("LayerNorm", "RMSNorm"),
        "norm placement": ("after each sum", "before each sublayer"),
        "feed-forward": ("ReLU", "SwiGLU, gated"),
        "biases": ("feed-forward", "none"),
    }
    assert diagram.size_differences["blocks"] == ("6 + 6", "32") and "block" not in diagram.differences
    original, llama = columns(diagram)
    assert (True, "causal self- attention multi-head 8 heads × 64") in original
    assert (True, "causal self- attention multi-head RoPE 32 heads × 128") in llama
    assert sum("LayerNorm" in words for _, words in original) == 5
    assert sum("RMSNorm" in words for _, words in llama) == 3
    assert all(text in {words for _, words in original} for text in ("source tokens", "target tokens"))
    assert "no encoder" in "".join(svg(diagram).findall("g")[1].itertext())


@pytest.mark.parametrize(
    ("placement", "rows"),
    [
        ("pre", ["norm before", "", "sum"]),
        ("post", ["", "sum", "norm"]),
        ("sandwich", ["norm before", "", "after", "sum"]),
        ("post_sublayer", ["", "after", "sum"]),
        ("rezero", ["", "after", "sum"]),
    ],
)
def test_norms_stand_where_the_config_has_them(placement, rows):
    order = order_of(dataclasses.replace(SMALL, norm_placement=placement))
    for sublayer in ("attention", "feed-forward"):
        assert [row.removeprefix(sublayer).strip() for row in order if row.startswith(sublayer)] == rows
    assert ("final norm" in order) == (placement not in ("post", "rezero"))
    words = boxes(dataclasses.replace(SMALL, norm_placement=placement)).get("attention after")
    assert words is None or words.design == (("× α, learned",) if placement == "rezero" else ("LayerNorm",))


@pytest.mark.parametrize(("n_norms", "rows"), [(1, ["", "sum"]), (2, ["norm before", "", "sum"])])
def test_a_parallel_block_leads_one_input_past_attention(n_norms, rows):
    serial, config = SMALL, dataclasses.replace(SMALL, parallel_block=True, n_parallel_norms=n_norms)
    order = [row for row in order_of(config) if row.startswith("feed-forward")]
    assert [row.removeprefix("feed-forward").strip() for row in order] == rows
    lanes = [[path.attrib["d"] for path in svg(block_diagram(one)).iter("path") if "H163V" in path.attrib["d"]]
             for one in (serial, config)]  # fmt: skip
    assert [len(found) for found in lanes] == [0, 1]
    x, start = map(float, re.findall(r"[\d.]+", lanes[1][0])[:2])
    boxes_of = [rect.attrib for rect in svg(block_diagram(config)).iter("rect") if "class" not in rect.attrib]
    norm = next(box for box in boxes_of if box["x"] == "30")
    assert x == 93 and (start > float(norm["y"])) == (n_norms == 1)


def test_what_an_encoder_reads_reaches_cross_attention():
    paths = [path.attrib["d"] for path in svg(block_diagram(find("t5-small"))).iter("path")]
    (lane,) = (path for path in paths if "H163V" in path)
    cross = next(g for g in svg(block_diagram(find("t5-small"))).iter("g") if "cross-attention" in "".join(g.itertext())
                 and "class" in g.attrib)  # fmt: skip
    top, height = (float(cross.find("rect").attrib[name]) for name in ("y", "height"))
    assert float(re.search(r"V([\d.]+)H157", lane)[1]) == pytest.approx(top + height / 2)


@pytest.mark.parametrize(("first", "other"), list(itertools.combinations(FAMILIES, 2)))
def test_a_box_is_filled_where_the_words_differ(first, other):
    """The boxes against the words: parts are filled if and only if the list of differences is not empty."""
    diagram = block_diagram(find(first), find(other))
    pair = [boxes(preset(name)) for name in (first, other)]
    for own, against, drawn in zip(pair, pair[::-1], columns(diagram), strict=True):
        expected = [
            against[row].design != box.design if row in against else True
            for row, box in own.items()
            if not row.endswith(("sum", "end"))
        ]
        assert sorted(filled for filled, _ in drawn) == sorted(expected)
    assert any(filled for filled, _ in columns(diagram)[0]) == bool(diagram.differences)
    assert all(first in diagram.alt and other in diagram.alt for first, other in diagram.differences.values())


CHANGES = {
    "kind": "encoder", "n_layers": 3, "n_heads": 2, "n_kv_heads": 2, "d_head": 8, "d_model": 28, "d_ff": 65,
    "n_vocab": 102, "n_ctx": 33, "qk_norm": "per_head", "clip_qkv": 8.0, "window": 8,
    "attn_logit_softcapping": 5.0, "norm": "rmsnorm",
    "norm_placement": "post", "embedding_norm": True, "parallel_block": True, "feedforward": "swiglu",
    "attention_bias": True, "output_bias": True, "ff_bias": True, "unembedding_bias": True, "tie_embeddings": True,
    "scale_embeddings": True, "scale_logits": True, "final_logit_softcapping": 7.0, "n_segments": 2,
    "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "logit_multiplier": 0.25, "attention_sinks": True,
    "token_head": True, "unembedding": False, "layernorm": LayerNormConfig(bias=False), "position": "rope",
    "moe": MoEConfig(n_experts=4, n_experts_per_token=2), "norm_eps": 1e-3, "attention_scale": 0.7, "d_value": 4,
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
def test_no_change_of_a_config_goes_unsaid(field):
    """Each field changes a word, or is named as not drawn; and what changes a word of the design fills a box."""
    changed = ModelConfig(**SIZES | {field: CHANGES[field]})
    diagram = block_diagram(SMALL, changed)
    if field in NOT_DRAWN:
        assert f"Not drawn: {field}." in diagram.alt and f"<p>Not drawn: {field}.</p>" in diagram.html()
    else:
        assert "Not drawn" not in diagram.html() and (diagram.differences or diagram.size_differences)
    assert any(filled for filled, words in columns(diagram)[1] + columns(diagram)[0]) == bool(diagram.differences)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        (dict(position="rope", rope=RopeConfig(base=500.0)), "rope.base"),
        (dict(position="rope", rope=RopeConfig(pairing="interleaved")), "rope.pairing"),
        (dict(position="shaw", clipping=ClippingConfig(max_distance=7)), "clipping"),
    ],
)
def test_options_of_the_same_part_are_named(changes, name):
    plain = dataclasses.replace(SMALL, position=changes["position"])
    assert f"Not drawn: {name}." in block_diagram(plain, dataclasses.replace(SMALL, **changes)).alt
    assert "Not drawn" not in block_diagram(SMALL, dataclasses.replace(SMALL, **changes)).alt


def test_every_field_is_drawn_or_named():
    drawn = {"n_encoder_layers", "attention", "n_parallel_norms", "rope.fraction", "rope.layers", "latent.d_latent"}
    drawn |= {f"layernorm.{name}" for name in ("weight", "bias")} | set(CHANGES) - {"moe", "layernorm"}
    drawn |= {f"moe.{field.name}" for field in dataclasses.fields(MoEConfig)}
    assert {name for name in types_of() if not name.startswith(NOT_DRAWN)} == {
        name for name in drawn if not name.startswith(NOT_DRAWN)
    }


@pytest.mark.parametrize("field", ["position", "norm", "norm_placement", "feedforward", "attention"])
def test_every_registered_part_has_words_of_its_own(field):
    latent = LatentAttentionConfig(d_latent=6)
    said = []
    for name in PARTS[field]:
        more = {"latent": latent} if name == "latent" else {}
        said.append(design(dataclasses.replace(SMALL, **{field: name}, **more)))
    assert len({tuple(words.values()) for words in said}) == len(PARTS[field])


@pytest.mark.parametrize("name", KNOWN)
def test_no_word_is_wider_than_its_box_and_no_box_meets_another(name):
    drawn = svg(block_diagram(find(name), preset("transformer-base"), titles=("", "another")))
    for column in drawn.findall("g"):
        rects = [rect.attrib for group in column.findall("g") for rect in group.findall("rect")]
        ends = [(float(rect["y"]), float(rect["y"]) + float(rect["height"])) for rect in rects]
        assert all(end < top for (_, end), (top, _) in itertools.pairwise(ends))
        for group in column.findall("g"):
            rect = group.find("rect")
            room = 20 if rect is None or rect.attrib["x"] == "2" else 17
            assert all(len(text.text) <= room for text in group.findall("text"))


def test_words_are_complete():
    assert repr(block_diagram(SMALL, titles=("my model",))) == (
        "Block diagram of my model. kind: decoder; embeddings: a table of their own for the output; positions: none; "
        "norm: LayerNorm; norm placement: before each sublayer; block: attention, then feed-forward; attention: "
        "multi-head; feed-forward: GELU; biases: none; logits: plain; width: 24; blocks: 2; heads: 4 × 6; feed-forward "
        "width: 64; vocabulary: 101; longest text: 32."
    )
    same = block_diagram(SMALL, dataclasses.replace(SMALL))
    assert same.alt.endswith("Their designs are the same. All sizes are the same.")
    bundle = same._repr_mimebundle_()
    assert bundle["text/plain"] == same.alt and svg(same).attrib["aria-label"] == same.alt
    assert "<script" not in bundle["text/html"] and "http" not in bundle["text/html"]


def test_sizes_that_differ_are_bold():
    def bold(diagram):
        return {text.text for text in svg(diagram).iter("text") if text.attrib["class"] == "la-name"}

    wider = dataclasses.replace(SMALL, d_ff=65)
    assert {"width 64", "width 65"} <= bold(block_diagram(SMALL, wider))
    assert not {"101 × 24", "4 heads × 6"} & bold(block_diagram(SMALL, wider))
    assert "width 64" not in bold(block_diagram(SMALL))
    assert sizes(wider)["feed-forward width"] == "65"


@pytest.mark.parametrize(("shade", "where"), [("light", ""), ("dark", f":is({DARK}) ")])
def test_colours_are_the_palettes(shade, where):
    for hue in ("weights", "feedforward", "normalization", "residual"):
        rule = f"\n{where}.la-blocks .la-{hue}{{--c:var(--la-{hue},{PALETTE[hue][shade]})}}"
        assert rule in block_diagram(SMALL).html()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("llama-7b",), "'llama-7b' must be a ModelConfig, or a preset such as find"),
        ((SMALL, 3), "3 must be a ModelConfig, or a preset"),
        ((find("gpt-4"),), "name='gpt-4' cannot be built: d_model"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        block_diagram(*given)


@pytest.mark.parametrize("titles", [("", "b"), ("a", "a"), ("a",), (1, 2)])
def test_each_model_needs_a_title(titles):
    with pytest.raises(ValueError, match="each model needs a title of its own"):
        block_diagram(SMALL, SMALL, titles=titles)
