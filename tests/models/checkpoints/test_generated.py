"""Generated models are Hugging Face's, or refused in one sentence; and what a fault in a family looks like here."""

import dataclasses
from dataclasses import replace

import pytest
import torch
import transformers
from models.checkpoints import generated
from models.checkpoints.cases import WrongRules, as_thirds, gate_and_up_exchanged, gate_and_up_of_experts_exchanged
from models.checkpoints.generated import KINDS, SEEDS, Draw, draw, outcome, outcomes, table

from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import engine, families

IN_SHORT = len(KINDS)  # a model of each family, whose options are compared one by one in test_parity.py
AT_LENGTH = 1600  # those of three minutes; the command compares all


@pytest.fixture(autouse=True)
def in_silence():
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    yield
    transformers.logging.set_verbosity(before)
    transformers.logging.enable_progress_bar()


@pytest.mark.parametrize("family, seed", [*zip(KINDS, SEEDS[:IN_SHORT], strict=True)])
def test_generated_models_are_theirs_or_refused(family, seed):
    found = outcome(draw(seed))
    assert found.drawn.family == family
    assert not found.fault, table([found])


@pytest.mark.slow
def test_many_generated_models_are_theirs_or_refused():
    found = outcomes(SEEDS[IN_SHORT:AT_LENGTH])
    assert not any(one.fault for one in found), table(found)


def test_every_family_is_drawn():
    assert set(families()) == set(KINDS)


def test_every_field_of_their_class_is_drawn_or_without_effect():
    for name, kind in KINDS.items():
        drawn = {field for seed in range(40) for field in kind.draw(Draw(seed))}
        drawn |= {field for one in kind.unclaimed if isinstance(one, dict) for field in one}
        fields = {field.name for field in dataclasses.fields(kind.of_config)}
        assert not fields - drawn - families()[name].harmless_names, name


ROPES = {
    name: entry
    for name, family in families().items()
    for field in family.fields
    if "dynamic" in getattr(entry := getattr(field, "rope", field), "options", ())
}


@pytest.mark.parametrize("name", ROPES)
def test_dynamic_rope_begins_at_the_default_of_their_class(name):
    config = Record("config.json", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "num_hidden_layers": 2})
    found = ROPES[name].from_hf(config)
    assert found["rope.scaling.original_max_position_embeddings"] == KINDS[name].of_config().max_position_embeddings


class WrongConfig:
    """The family that builds another model than its config says: ``change`` gets the config, and returns fields."""

    def __init__(self, change):
        self.change = change

    def __call__(self, name):
        family = families()[name]
        return replace(family, build=lambda config: family.build(config.of(config.changed() | self.change(config))))


class WrongFile:
    """The family that writes these fields into ``config.json``, whatever the model is."""

    def __init__(self, fields):
        self.fields = fields

    def __call__(self, name):
        family, fields = families()[name], self.fields

        class Forgetful(type(family)):
            def hf_config(self, config):
                return super().hf_config(config) | fields

        return Forgetful(**{field.name: getattr(family, field.name) for field in dataclasses.fields(family)})


def other(field, change):
    return WrongConfig(lambda config: {field: change(config.get(field))} if config.get(field) is not None else {})


FAULTS = {
    "base": ("llama", other("rope.base", lambda base: 1.1 * base), "logits"),
    "epsilon": ("qwen2", other("norm_eps", lambda eps: 1e-6), "logits"),
    "epsilon of a layer norm": ("gpt2", other("norm_eps", lambda eps: 1e-5), "logits"),
    "gate for up": ("mistral", WrongRules(gate_and_up_exchanged), "logits"),
    "gate for up in experts": ("mixtral", WrongRules(gate_and_up_of_experts_exchanged), "logits"),
    "window of one more": ("mistral", other("window", lambda window: window + 1), "logits"),
    "bound of scores": ("gemma2", other("attn_logit_softcapping", lambda bound: 1.1 * bound), "logits"),
    "bound of logits": ("gemma2", other("final_logit_softcapping", lambda bound: 1.1 * bound), "logits"),
    "pairs of RoPE": ("gptj", other("rope.pairing", lambda pairing: "half_split"), "logits"),
    "scale of embeddings": ("gemma", other("scale_embeddings", lambda scaled: False), "logits"),
    "scale of logits": ("t5", other("scale_logits", lambda scaled: not scaled), "logits"),
    "scaling of RoPE": ("olmo2", other("rope.scaling", lambda scaling: None), "logits"),
    "fused projections": ("bloom", WrongRules(as_thirds), "logits"),
    "a default in the file": ("llama", WrongFile(dict(rms_norm_eps=1e-6)), "rms_norm_eps"),
    "an activation in the file": ("bert", WrongFile(dict(hidden_act="relu")), "hidden_act"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_reported(fault, monkeypatch):
    name, wrong, said = FAULTS[fault]
    wrong = families() | {name: wrong(name)}
    monkeypatch.setattr(engine, "families", lambda: wrong)
    found = []
    for seed in SEEDS[list(KINDS).index(name) : 12 * len(KINDS) : len(KINDS)]:
        found.append(outcome(draw(seed)))
        if found[-1].fault and said in found[-1].fault:
            return
    pytest.fail(table(found))


def test_a_wrong_token_is_reported(monkeypatch):
    right = generated.generate

    def wrong(model, *prompts, **options):
        written = right(model, *prompts, **options)
        written.ids[0][-1] = (written.ids[0][-1] + 1) % model.config.n_vocab
        return written

    monkeypatch.setattr(generated, "generate", wrong)
    of_family = (drawn for drawn in map(draw, SEEDS) if drawn.family == "llama" and drawn.has_head)
    claimed = next(drawn for drawn in of_family if not drawn.unclaimed)
    assert "a greedy token is not theirs" in (outcome(claimed).fault or "")


def test_a_refusal_of_what_is_claimed_is_reported(monkeypatch):
    def refuse(*given, **options):
        raise ValueError("no")

    monkeypatch.setattr(generated, "load", refuse)
    claimed = next(drawn for drawn in map(draw, SEEDS) if not drawn.unclaimed)
    assert "refused, though the family claims all of it: no" in outcome(claimed).fault


def test_what_is_no_number_is_reported():
    logits, every = torch.ones(1, 2, 3), torch.ones(1, 2, dtype=torch.bool)
    assert generated.apart(1.5 * logits, logits, every) == 0.5
    with pytest.raises(AssertionError, match="not finite"):
        generated.apart(logits * float("nan"), logits, every)
