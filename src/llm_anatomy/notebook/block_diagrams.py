"""Block diagrams of whole models, drawn from their configs: one model, or two side by side with what differs filled."""

import html
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.feedforward import GATES
from llm_anatomy.notebook.figures import PALETTE
from llm_anatomy.notebook.front_end import DARK
from llm_anatomy.registry import PARTS

COLUMN, GUTTER = 168, 8  # width of a model, and between two: together what a phone of 390 CSS pixels has
STREAM, LEFT, RIGHT, LANE = 15, 30, 156, 163  # x of the residual stream, of the boxes beside it, of a line past them
LINE, PAD, GAP = 15, 5, 15  # height of a line of text, room above and below it, and between two boxes
LETTERS = {False: 17, True: 20}  # that fit into a box beside the stream, and on it

STYLE = """
.la-blocks{margin:1.25em 0;font-family:var(--pst-font-family-base,sans-serif)}
.la-blocks figcaption{margin:0 0 .5em;font-weight:600;font-style:normal;text-align:left}
.la-blocks p{margin:.5em 0 0;font-size:14px}
.la-blocks svg{display:block;width:100%;height:auto;overflow:visible}
.la-blocks text{fill:currentColor;text-anchor:middle;font-size:12.5px}
.la-blocks .la-name{font-weight:600}
.la-blocks .la-title{font-weight:700;font-size:13.5px}
.la-blocks path,.la-blocks circle{fill:none;stroke:currentColor;stroke-opacity:.7}
.la-blocks path.la-head{fill:currentColor;fill-opacity:.7;stroke:none}
.la-blocks rect{fill:var(--c);fill-opacity:.16;stroke:var(--c);stroke-width:2}
.la-blocks .la-equal rect{fill:none;stroke:currentColor;stroke-opacity:.4;stroke-width:1}
.la-blocks rect.la-stack{fill:none;stroke:currentColor;stroke-opacity:.4;stroke-width:1;stroke-dasharray:4 3}
"""

NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "unit_offset_rmsnorm": "RMSNorm"}
PLACEMENTS = {
    "pre": "before each sublayer",
    "post": "after each sum",
    "sandwich": "before and after each sublayer",
    "post_sublayer": "after each sublayer, before the sum",
    "rezero": "none; each sublayer is scaled by a learned α",
}
QK_NORMS = {
    "per_head": "per head",
    "across_heads": "across heads",
    "per_head_weights": "per head, each with its own weights",
}
ACTIVATIONS = {
    "relu": "ReLU", "squared_relu": "squared ReLU", "gelu": "GELU", "gelu_tanh": "GELU (tanh)", "swish": "Swish",
    "elu": "ELU", "selu": "SELU", "tanh": "tanh", "sigmoid": "sigmoid", "softplus": "softplus", "glu": "GLU",
    "bilinear": "bilinear", "reglu": "ReGLU", "geglu": "GEGLU", "geglu_tanh": "GEGLU (tanh)", "swiglu": "SwiGLU",
    "clamped_swiglu": "clamped SwiGLU",
}  # fmt: skip


NOT_DRAWN = (
    "norm_eps", "attention_scale", "d_value", "layer_types", "rope.base", "rope.local_base", "rope.pairing",
    "rope.scaling", "alibi", "learned.offset", "clipping", "buckets", "latent.d_rotary", "latent.d_query_latent",
    "moe.router", "moe.routed_scaling_factor", "moe.n_groups", "clamped_swiglu",
)  # fmt: skip
"""Fields, or nested configs, that no part of the drawing shows; they are named below it where they differ."""


@runtime_checkable
class Described(Protocol):
    """What has a title and a config, as a preset has (:func:`llm_anatomy.models.presets.find`)."""

    title: str

    def config(self) -> ModelConfig: ...


def block_diagram(
    model: ModelConfig | Described,
    other: ModelConfig | Described | None = None,
    *,
    titles: tuple[str, ...] = ("this model", "the other model"),
) -> "BlockDiagram":
    """Draw the block diagram of a model, or those of two models side by side, with the parts that differ filled.

    Args:
        model, other: a config, or a preset with its title, such as ``find("llama-7b")``.
        titles: of the models that are given as configs.

    Raises:
        ValueError: for something else than a config or a preset, for a model whose architecture is not public, and for
            an empty or missing title.

    Source: GT-11, which draws the original Transformer beside LLaMA.

    >>> from llm_anatomy.models.presets import find
    >>> diagram = block_diagram(find("gpt-3"), find("opt-175b"))
    >>> diagram  # doctest: +NORMALIZE_WHITESPACE
    Block diagram of GPT-3 175B beside OPT 175B. They differ in feed-forward (GELU (tanh) | ReLU). Their
    sizes: vocabulary (50,257 | 50,272). Not drawn: learned.offset.
    >>> diagram.differences
    {'feed-forward': ('GELU (tanh)', 'ReLU')}
    """
    given = [one for one in (model, other) if one is not None]
    known = {}
    for one, title in zip(given, titles, strict=False):
        if not isinstance(one, ModelConfig | Described):
            raise ValueError(f'{one!r} must be a ModelConfig, or a preset such as find("llama-7b")')
        config, title = (one, title) if isinstance(one, ModelConfig) else (one.config(), one.title)
        known[title] = config
    if len(known) < len(given) or not all(isinstance(title, str) and title.strip() for title in known):
        raise ValueError(f"titles={titles!r}; each model needs a title of its own")
    return BlockDiagram(known)


# --- What a config says ---


def design(config: ModelConfig) -> dict[str, str]:
    """Say in words what the parts of a model are, without its sizes.

    >>> design(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="rope"))["positions"]
    'RoPE'
    """
    at_input = ["one table for input and output" if config.tie_embeddings else "a table of their own for the output"]
    if not config.unembedding:
        at_input = ["no output layer"]
    at_input += ["scaled by √d_model"] * config.scale_embeddings
    at_input += [f"multiplied by {config.embedding_multiplier:g}"] * (config.embedding_multiplier != 1)
    at_input += ["normalized"] * config.embedding_norm
    at_input += ["with segments"] * bool(config.n_segments)
    found = {
        "kind": config.kind,
        "embeddings": ", ".join(at_input),
        "positions": _positions(config),
        "norm": ", ".join(_norm(config)),
        "norm placement": PLACEMENTS.get(config.norm_placement, config.norm_placement),
        "block": _block(config),
        "attention": ", ".join(_attention(config)),
        "feed-forward": ", ".join(_feedforward(config)),
        "biases": _biases(config),
        "logits": ", ".join(_logits(config)) or "plain",
    }
    return found


def sizes(config: ModelConfig) -> dict[str, str]:
    """Say in words how large the parts of a model are.

    >>> sizes(ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=50257))["heads"]
    '3 × 8'
    """
    encoder = f"{config.n_encoder_layers} + " if config.n_encoder_layers else ""
    found = {"width": f"{config.d_model:,}", "blocks": f"{encoder}{config.n_layers}", "heads": _heads(config)}
    if 1 < config.n_kv_heads < config.n_heads:
        found["key-value heads"] = f"{config.n_kv_heads}"
    if config.latent:
        found["latent"] = f"{config.latent.d_latent}"
    found["feed-forward width"] = f"{config.d_ff:,}"
    if moe := config.moe:
        found["experts"] = ", ".join(_experts(config))
        found["width of an expert"] = f"{moe.d_expert:,}"
    return found | {
        "vocabulary": f"{config.n_vocab:,}",
        "longest text": "no bound" if config.n_ctx is None else f"{config.n_ctx:,}",
    }


def _positions(config: ModelConfig) -> str:
    scheme = PARTS["position"][config.position]
    if config.position == "none":
        return "none"
    if scheme.at_input:
        return f"{config.position}, added to the embeddings"
    part = f" in {config.rope.fraction:.0%} of each head" if config.rope and config.rope.fraction < 1 else ""
    if config.rope and config.rope.layers:
        part += f" in {sum(map(config.rope.has_layer, range(config.n_layers)))} blocks"
    return (scheme.label or scheme.__name__) + part


def _norm(config: ModelConfig) -> list[str]:
    name, options = NORMS.get(config.norm, config.norm), config.layernorm
    if config.norm == "unit_offset_rmsnorm":
        return [name, "scale 1 + weight"]
    if options is None or options.weight and options.bias:
        return [name]
    return [name, "no bias" if options.weight else "no scale" if options.bias else "no parameters"]


def _block(config: ModelConfig) -> str:
    if config.residual_multiplier != 1:
        return f"attention, then feed-forward, each multiplied by {config.residual_multiplier:g}"
    if not config.parallel_block:
        return "attention, then feed-forward"
    return f"attention and feed-forward in parallel, {'one norm' if config.n_parallel_norms == 1 else 'two norms'}"


def _attention(config: ModelConfig) -> list[str]:
    shared = "multi-query" if config.n_kv_heads == 1 else "grouped-query"
    said = ["latent" if config.latent else "multi-head" if config.n_kv_heads == config.n_heads else shared]
    if config.window:
        windows = [config.window_of(layer) for layer in range(config.n_layers)]
        n = sum(window is not None for window in windows)
        said += [
            f"window of {config.window:,}" if n == config.n_layers else f"window of {config.window:,} in {n} blocks"
        ]
    if config.qk_norm:
        said += [f"Q and K normalized {QK_NORMS[config.qk_norm]}"]
    if config.clip_qkv:
        said += [f"Q, K and V clipped at {config.clip_qkv:g}"]
    if config.attention_sinks:
        said += ["a sink in each head"]
    if config.attn_logit_softcapping:
        said += [f"softcapping at {config.attn_logit_softcapping:g}"]
    return said


def _heads(config: ModelConfig) -> str:
    return f"{config.n_heads} × {config.d_head}"


def _feedforward(config: ModelConfig) -> list[str]:
    gated = ["gated"] if config.feedforward in GATES or config.clamped_swiglu else []
    name = ACTIVATIONS.get(config.feedforward, config.feedforward)
    return [name, *gated] + (["mixture of experts"] if config.moe else [])


def _experts(config: ModelConfig) -> list[str]:
    moe, said = config.moe, []
    if moe:
        said = [f"{moe.n_experts} experts", f"{moe.n_experts_per_token} for each token"]
        said += [f"{moe.n_shared_experts} shared"] if moe.n_shared_experts else []
        n = moe.n_dense_layers
        said += [f"first {'block' if n == 1 else f'{n} blocks'} dense"] if n else []
        n = len(moe.dense_layers)
        said += [f"{'1 block' if n == 1 else f'{n} blocks'} dense"] if n else []
    return said


def _biases(config: ModelConfig) -> str:
    fields = {
        "queries, keys and values": config.attention_bias,
        "attention's output": config.output_bias or bool(config.latent and config.attention_bias),
        "feed-forward": config.ff_bias,
        "router": bool(config.moe and config.moe.router_bias),
        "experts": bool(config.moe and config.moe.expert_bias),
        "logits": config.unembedding_bias,
    }
    return ", ".join(name for name, has in fields.items() if has) or "none"


def _logits(config: ModelConfig) -> list[str]:
    cap = config.final_logit_softcapping
    said = ["through a dense layer"] * config.token_head + ["divided by √d_model"] * config.scale_logits
    said += [f"multiplied by {config.logit_multiplier:g}"] * (config.logit_multiplier != 1)
    return said + ([f"softcapping at {cap:g}"] if cap else [])


# --- Boxes ---


@dataclass(frozen=True)
class Box:
    """A part of a model in the diagram: a colour of the palette, lines of its design, lines of its sizes."""

    hue: str
    design: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    beside: bool = False  # the stream, on a branch that returns to it


SUBLAYERS = ("attention", "cross-attention", "feed-forward")
AROUND = {"norm before": True, "": True, "after": True, "sum": False, "norm": False}
"""What may stand around a sublayer, from top to bottom, and whether it stands beside the stream."""


def slots() -> list[str]:
    """Every row that a diagram can have, from top to bottom."""
    rows = []
    for stack in ("encoder ", ""):
        rows += [stack + row for row in ("tokens", "embedding", "positions", "segments", "embedding norm", "blocks")]
        rows += [f"{stack}{sublayer} {part}".strip() for sublayer in SUBLAYERS for part in AROUND]
        rows += [stack + row for row in ("blocks end", "final norm", *(["end"] if stack else []))]
    return [*rows, "token head", "unembedding", "logits"]


def boxes(config: ModelConfig) -> dict[str, Box]:
    """Return the boxes of a model by their rows, from its config."""
    placement, norm = config.norm_placement, Box("normalization", tuple(_norm(config)))
    beside = Box("normalization", norm.design, beside=True)
    table, scheme, found = f"{config.n_vocab:,} × {config.d_model:,}", PARTS["position"][config.position], {}

    def sublayer(row: str, box: Box, has_norm: bool = True) -> None:
        if placement in ("pre", "sandwich") and has_norm:
            found[f"{row} norm before"] = beside
        found[row] = box
        if placement in ("sandwich", "post_sublayer"):
            found[f"{row} after"] = beside
        elif placement == "rezero":
            found[f"{row} after"] = Box("residual", ("× α, learned",), beside=True)
        elif config.residual_multiplier != 1:
            found[f"{row} after"] = Box("residual", (f"× {config.residual_multiplier:g}",), beside=True)
        found[f"{row} sum"] = Box("residual", ("+",))
        if placement == "post":
            found[f"{row} norm"] = norm

    stacks = {"encoder ": config.n_encoder_layers} if config.kind == "encoder-decoder" else {}
    for stack, n_blocks in (stacks | {"": config.n_layers}).items():
        named = {"encoder ": "source", "": "target" if stacks else ""}[stack]
        found[f"{stack}tokens"] = Box("none", (f"{named} tokens".strip(),))
        scaled = ("× √d_model",) if config.scale_embeddings else ()
        if config.embedding_multiplier != 1:
            scaled += (f"× {config.embedding_multiplier:g}",)
        found[f"{stack}embedding"] = Box("residual", ("token embedding", *scaled), (table,))
        if scheme.at_input:
            rows = (f"{config.n_ctx:,} positions",) if scheme.needs_n_ctx else ()
            found[f"{stack}positions"] = Box("position", (f"+ {scheme.label or scheme.__name__}",), rows)
        if config.n_segments:
            found[f"{stack}segments"] = Box("residual", ("+ segments",), (f"{config.n_segments} segments",))
        if config.embedding_norm:
            found[f"{stack}embedding norm"] = norm
        found[f"{stack}blocks"] = Box("none", (), (f"{n_blocks} {'block' if n_blocks == 1 else 'blocks'}",))
        causal = not stack and config.kind != "encoder"
        sublayer(f"{stack}attention", _attention_box(config, "causal self-attention" if causal else "self-attention"))
        if stacks and not stack:
            sublayer("cross-attention", _attention_box(config, "cross-attention", crosses=True))
        sublayer(
            f"{stack}feed-forward", _feedforward_box(config), not config.parallel_block or config.n_parallel_norms == 2
        )
        found[f"{stack}blocks end"] = Box("none", ())
        if placement not in ("post", "rezero"):
            found[f"{stack}final norm"] = norm
        if stack:
            found[f"{stack}end"] = Box("none", ())
    if config.token_head:
        found["token head"] = Box("feedforward", ("dense layer", _feedforward(config)[0], *norm.design))
    if config.unembedding:
        bias = ("bias",) if config.unembedding_bias else ()
        tied = "tied to the embedding" if config.tie_embeddings else "its own table"
        said = [part for part in _logits(config) if "dense" not in part]
        found["unembedding"] = Box("residual", ("unembedding", tied, *bias, *said), (table,))
        found["logits"] = Box("none", ("logits",))
    else:
        found["logits"] = Box("none", ("hidden states",))
    return found


def _attention_box(config: ModelConfig, name: str, crosses: bool = False) -> Box:
    kind, *options = _attention(config)
    options = [option for option in options if not crosses or "window" not in option]
    is_here = config.position != "none" and not PARTS["position"][config.position].at_input
    position = [_positions(config)] if is_here and not crosses else []
    out = config.output_bias or config.latent and config.attention_bias
    biased = [letters for letters, has in {"Q, K, V": config.attention_bias, "O": out}.items() if has]
    bias = [f"biases {', '.join(biased)}"] if biased else []
    numbers = [f"{config.n_heads} heads × {config.d_head}"]
    if kind == "grouped-query":
        numbers += [f"{config.n_kv_heads} key-value heads"]
    if config.latent:
        numbers += [f"latent of {config.latent.d_latent}"]
    return Box("weights", (name, kind, *position, *options, *bias), tuple(numbers), beside=True)


def _feedforward_box(config: ModelConfig) -> Box:
    name = "mixture of experts" if config.moe else "feed-forward"
    activation = [word for word in _feedforward(config) if "experts" not in word]
    said = (name, *activation, *(["biases"] if config.ff_bias else []))
    width = config.moe.d_expert if config.moe else config.d_ff
    return Box("feedforward", said, (f"width {width:,}", *_experts(config)), beside=True)


# --- The drawing ---


class BlockDiagram:
    """What :func:`block_diagram` returns: it shows itself in a notebook, and its plain text says the same in words.

    Args:
        models: one or two configs by title.
    """

    def __init__(self, models: Mapping[str, ModelConfig]):
        self.models = dict(models)

    @property
    def differences(self) -> dict[str, tuple[str, str]]:
        """What the two models differ in, sizes aside: by part, the words for each; empty for one model."""
        return self._different(design)

    @property
    def size_differences(self) -> dict[str, tuple[str, str]]:
        """The sizes that the two models differ in; a size that one of them does not have is a dash there."""
        return self._different(sizes)

    def _different(self, said) -> dict[str, tuple[str, str]]:
        first, *rest = map(said, self.models.values())
        if not rest:
            return {}
        names = dict.fromkeys([*first, *rest[0]])
        return {n: pair for n in names if len(set(pair := (first.get(n, "–"), rest[0].get(n, "–")))) > 1}

    @property
    def alt(self) -> str:
        """The alternative text."""
        (title, config), *others = self.models.items()
        if not others:
            said = "; ".join(f"{name}: {words}" for name, words in (design(config) | sizes(config)).items())
            return f"Block diagram of {title}. {said}."
        heads = f"Block diagram of {title} beside {others[0][0]}."
        design_words, size_words = (
            "; ".join(f"{name} ({first} | {second})" for name, (first, second) in found.items())
            for found in (self.differences, self.size_differences)
        )
        said = [f"They differ in {design_words}." if design_words else "Their designs are the same."]
        said += [f"Their sizes: {size_words}." if size_words else "All sizes are the same."]
        said += [f"Not drawn: {self._not_drawn}."] if self._not_drawn else []
        return " ".join([heads, *said])

    @property
    def _not_drawn(self) -> str:
        """The fields that the two configs differ in and that the drawing does not show."""
        if len(self.models) == 1:
            return ""
        first, other = self.models.values()
        found = {}
        for name in first.difference(other):
            shown = next((start for start in NOT_DRAWN if name.startswith(start)), None)
            part, _, inner = name.partition(".")
            in_both = not inner or first.get(part) is not None and other.get(part) is not None
            is_own = name != "d_value" or first.d_value != first.d_head or other.d_value != other.d_head
            if shown and in_both and is_own:
                found[shown] = None
        return ", ".join(found)

    @property
    def title(self) -> str:
        """The question that the diagram answers."""
        return (
            f"How is {self._titles[0]} built?"
            if len(self.models) == 1
            else (f"What differs between {' and '.join(self._titles)}?")
        )

    @property
    def _titles(self) -> list[str]:
        return list(self.models)

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.alt, "text/html": self.html()}

    def html(self) -> str:
        """Return the diagram as one HTML element, for any page."""
        every = [boxes(config) for config in self.models.values()]
        lines = [{row: _lines(row, box) for row, box in one.items()} for one in every]
        headings = [textwrap.wrap(title, 20) for title in self.models]
        tops, y = {}, 8 + LINE * max(map(len, headings))
        for row in slots():
            heights = [_height(row, one[row]) for one in lines if row in one]
            if heights:
                tops[row] = (y, y + max(heights))
                y += max(heights) + GAP
        width = len(every) * COLUMN + (len(every) - 1) * GUTTER
        drawn = []
        for i, (config, own) in enumerate(zip(self.models.values(), every, strict=True)):
            other = every[1 - i] if len(every) == 2 else None
            words = [_text(COLUMN / 2, LINE * (n + 0.5), line, "la-title") for n, line in enumerate(headings[i])]
            parts = "\n".join([*words, *_draw(own, other, lines[i], tops, config)])
            drawn.append(f'<g transform="translate({i * (COLUMN + GUTTER)})">\n{parts}\n</g>')
        hues = dict.fromkeys(box.hue for one in every for box in one.values())
        colours = "".join(
            f"{where}.la-blocks .la-{hue}{{--c:var(--la-{hue},{PALETTE[hue][shade]})}}\n"
            for shade, where in {"light": "", "dark": f":is({DARK}) "}.items()
            for hue in hues
        )
        legend = "<p>Filled parts differ in design; sizes in bold differ too.</p>" if len(every) == 2 else ""
        legend += f"<p>Not drawn: {html.escape(self._not_drawn)}.</p>" if self._not_drawn else ""
        size = f'viewBox="0 0 {width} {y}" style="max-width:{round(1.25 * width)}px"'
        return f"""<figure class="la-blocks">
<style>{STYLE}{colours}</style>
<figcaption>{html.escape(self.title)}</figcaption>
<svg {size} role="img" aria-label="{html.escape(self.alt)}">
{chr(10).join(drawn)}
</svg>{legend}
</figure>"""


def _lines(row: str, box: Box) -> list[tuple[str, str]]:
    """The lines of a box, each with what it is: a name, a word of the design or a size."""
    room = LETTERS[not box.beside]
    said = [(line, "name" if i == 0 else "design") for i, line in enumerate(box.design)]
    said += [(line, "size") for line in box.sizes]
    return [(part, what) for line, what in said for part in textwrap.wrap(line, room)]


def _height(row: str, lines: list[tuple[str, str]]) -> int:
    if row.endswith("end"):
        return 2
    if row.endswith(" sum"):
        return 14
    bare = row.endswith(("tokens", "logits", "blocks"))
    return len(lines) * LINE + (0 if bare else 2 * PAD)


def _draw(
    own: dict[str, Box],
    other: dict[str, Box] | None,
    lines: dict[str, list[tuple[str, str]]],
    tops: dict[str, tuple[int, int]],
    config: ModelConfig,
) -> Iterator[str]:
    """Draw a model in a column: the stream at the left, sublayers on branches beside it."""
    if config.kind != "encoder-decoder" and "encoder attention" in tops:
        yield _text(COLUMN / 2, sum(tops["encoder attention"]) / 2, "no encoder", "")
    rows = [row for row in tops if row in own]
    for stack in ("encoder ", ""):
        if f"{stack}blocks" in own:
            yield from _draw_stack(stack, own, tops, config)
    for row in rows:
        box, (top, bottom) = own[row], tops[row]
        differs = other is not None and (row not in other or other[row].design != box.design)
        if row.endswith(" sum"):
            middle = (top + bottom) / 2
            yield f'<circle cx="{STREAM}" cy="{middle}" r="7"/>'
            yield f'<path d="M{STREAM - 4} {middle}h8M{STREAM} {middle - 4}v8"/>'
            continue
        if row.endswith("end"):
            continue
        bold = {line for line, what in lines[row] if what == "size"} if _resized(row, own, other) else set()
        left, right = (LEFT, RIGHT) if box.beside else (2, RIGHT)
        body = len(lines[row]) * LINE
        words = "".join(
            _text((left + right) / 2, (top + bottom - body) / 2 + LINE * (i + 0.5), line,
                  "la-name" if what == "name" or line in bold else "")
            for i, (line, what) in enumerate(lines[row])
        )  # fmt: skip
        frame = f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" rx="6"/>'
        bare = row.endswith(("tokens", "logits", "blocks"))
        equal = "" if differs or other is None else " la-equal"
        yield f'<g class="la-{box.hue}{equal}">{"" if bare else frame}{words}</g>'


def _resized(row: str, own: dict[str, Box], other: dict[str, Box] | None) -> bool:
    return other is not None and (row not in other or other[row].sizes != own[row].sizes)


def _draw_stack(
    stack: str, own: dict[str, Box], tops: dict[str, tuple[int, int]], config: ModelConfig
) -> Iterator[str]:
    """The lines of one stack: its frame, the stream, and the branches of its sublayers."""
    rows = [row for row in tops if row in own and row.startswith("encoder ") == bool(stack)]
    on_stream = [row for row in rows if not own[row].beside and not row.endswith(("blocks", "blocks end"))]
    for above, below in zip(on_stream, on_stream[1:], strict=False):
        start, end = tops[above][1], tops[below][0]
        yield f'<path d="M{STREAM} {start}V{end}"/>'
        if not below.endswith((" sum", " end")):
            yield _head(STREAM, end)
    start, height = tops[f"{stack}blocks"][0] - 4, tops[f"{stack}blocks end"][1] - tops[f"{stack}blocks"][0] + 4
    yield f'<rect class="la-stack" x="-2" y="{start}" width="{COLUMN + 3}" height="{height}" rx="8"/>'
    middle = (LEFT + RIGHT) / 2
    for sublayer in SUBLAYERS:
        row = stack + sublayer
        branch = [part for part in rows if own[part].beside and part.startswith(row) and _sublayer(part) == row]
        if not branch:
            continue
        top, total = tops[branch[0]][0], sum(tops[f"{row} sum"]) / 2
        if config.parallel_block and sublayer == "feed-forward":
            before = "attention norm before"
            source = tops[before][1] + GAP / 2 if config.n_parallel_norms == 1 else tops[before][0] - GAP * 0.7
            yield f'<path d="M{middle} {source}H{LANE}V{top - GAP * 0.6}H{middle}V{top}"/>'
        else:
            yield f'<path d="M{STREAM} {top - GAP * 0.7}H{middle}V{top}"/>'
        yield _head(middle, top)
        for above, below in zip(branch, branch[1:], strict=False):
            yield f'<path d="M{middle} {tops[above][1]}V{tops[below][0]}"/>{_head(middle, tops[below][0])}'
        yield f'<path d="M{middle} {tops[branch[-1]][1]}V{total}H{STREAM + 8}"/>'
        yield f'<path class="la-head" d="M{STREAM + 7} {total}l8 -4v8z"/>'
    if stack:
        cross = sum(tops["cross-attention"]) / 2
        yield f'<path d="M{STREAM} {tops[rows[-1]][0]}H{LANE}V{cross}H{RIGHT + 1}"/>'
        yield f'<path class="la-head" d="M{RIGHT + 1} {cross}l7 -4v8z"/>'


def _sublayer(row: str) -> str:
    """The sublayer that a row belongs to.

    >>> _sublayer("encoder feed-forward norm before")
    'encoder feed-forward'
    """
    for part in ("norm before", "after", "sum", "norm"):
        row = row.removesuffix(f" {part}")
    return row


def _head(x: float, y: float) -> str:
    return f'<path class="la-head" d="M{x:g} {y:g}l-4 -7h8z"/>'


def _text(x: float, y: float, words: str, name: str) -> str:
    return f'<text class="{name}" x="{x:g}" y="{y + 4:g}">{html.escape(words)}</text>'
