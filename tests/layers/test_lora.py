"""LoRA layers compute what those of peft compute, train nothing else, and become plain layers again."""

import copy

import pytest
import torch
from torch import nn

from llm_anatomy.config import LatentAttentionConfig, ModelConfig, MoEConfig
from llm_anatomy.layers.lora import LoRALinear, add_lora, merge_lora
from llm_anatomy.models.transformer import Transformer

ATTENTION = ["w_query", "w_key", "w_value", "w_output"]


def transformer(**options):
    torch.manual_seed(0)
    sizes = dict(d_model=12, n_layers=2, n_heads=3, n_kv_heads=1, d_ff=20, n_vocab=17, position="rope", norm="rmsnorm")
    return Transformer(ModelConfig(**sizes | options))


def randomize(model):
    """Also the matrices that begin with zeros; the same for the same shapes, in the order of the names."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if parameter.requires_grad:
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))


IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_forward_gradients_and_merged_weights_are_those_of_peft(dtype):
    peft = pytest.importorskip("peft")
    ours = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 7, bias=False)).to(dtype)
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["0", "2"])
    theirs = peft.get_peft_model(copy.deepcopy(ours), config)
    assert add_lora(ours, rank=3, alpha=5, targets=["0", "2"]) == ["0", "2"]
    layers = [theirs.base_model.model[i] for i in (0, 2)]
    randomize(ours)
    with torch.no_grad():
        for mine, other in zip((ours[0], ours[2]), layers, strict=True):
            for parameter, own in [
                (other.lora_A["default"].weight, mine.lora_a),
                (other.lora_B["default"].weight, mine.lora_b),
            ]:
                assert parameter.dtype == own.dtype
                parameter.copy_(own)
    x = torch.randn(4, 5, 12, dtype=dtype)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [model(input) for model, input in zip((ours, theirs), inputs, strict=True)]
    assert outputs[0].dtype == dtype
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.float().square().sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    for mine, other in zip((ours[0], ours[2]), layers, strict=True):
        torch.testing.assert_close(mine.lora_a.grad, other.lora_A["default"].weight.grad)
        torch.testing.assert_close(mine.lora_b.grad, other.lora_B["default"].weight.grad)
        assert mine.frozen_weight.grad is None
    merge_lora(ours)
    merged = theirs.merge_and_unload()
    for key, value in merged.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value)


def test_a_model_begins_as_it_was_and_trains_the_narrow_matrices_only():
    model = transformer()
    before, state = model(IDS), copy.deepcopy(model.state_dict())
    names = add_lora(model, rank=2, alpha=4)
    assert names == [f"stack.blocks.{i}.attention.{name}" for i in (0, 1) for name in ATTENTION]
    torch.testing.assert_close(model(IDS), before, rtol=0, atol=0)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained == [f"{name}.lora_{ab}" for name in names for ab in "ab"]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(IDS).logsumexp(-1).sum().backward()
        optimizer.step()
    assert not model(IDS).allclose(before, atol=1e-3)
    for key, value in model.state_dict().items():
        assert ("lora_" in key) == (key not in state) and ("lora_" in key or value.equal(state[key]))


def test_a_merged_model_is_a_plain_one_that_computes_the_same():
    model, plain = transformer(), transformer()
    add_lora(model, rank=2, alpha=4, targets=[*ATTENTION, "w_up", "w_down"])
    randomize(model)
    adapted = model(IDS)
    merge_lora(model)
    torch.testing.assert_close(model(IDS), adapted)
    assert not any(isinstance(module, LoRALinear) for module in model.modules())
    assert model.state_dict().keys() == plain.state_dict().keys() and repr(model) == repr(plain)
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(plain(IDS), adapted)
    assert add_lora(model, rank=1, alpha=1, targets="w_query")  # once more


def test_who_reads_the_weight_sees_the_layer_as_it_is():
    layer = LoRALinear(5, 3, rank=2, alpha=3)
    randomize(layer)
    x = torch.randn(4, 5)
    torch.testing.assert_close(x @ layer.weight.T + layer.bias, layer(x))
    assert layer.state_dict()["weight"].equal(layer.frozen_weight) and not layer.weight.allclose(layer.frozen_weight)
    torch.autograd.grad(layer.weight.sum(), [layer.lora_a, layer.lora_b])
    assert not layer.frozen_weight.requires_grad and not layer.bias.requires_grad


@pytest.mark.parametrize(
    "options",
    [
        dict(attention="latent", latent=LatentAttentionConfig(d_latent=8, d_rotary=4), n_kv_heads=3),
        dict(moe=MoEConfig(n_experts=4, n_experts_per_token=2, d_expert=10)),
    ],
    ids=["latent attention", "router"],
)
def test_layers_whose_weight_is_read_elsewhere_agree_with_the_merged_model(options):
    model = transformer(**options)
    every = {name.rpartition(".")[2] for name, module in model.named_modules() if type(module) is nn.Linear}
    add_lora(model, rank=2, alpha=2, targets=every)
    randomize(model)
    cache = model.new_cache(2, 5)
    with torch.no_grad():
        outputs = [model(IDS), torch.cat([model(IDS[:, i : i + 1], cache=cache) for i in range(5)], 1)]
        merge_lora(model)
        torch.testing.assert_close(outputs, [model(IDS)] * 2)


def test_references_to_a_layer_that_others_own_are_adapted_as_well():
    model = transformer(position="deberta", kind="encoder", n_kv_heads=3)
    add_lora(model, rank=2, alpha=2)
    randomize(model)
    with torch.no_grad():
        adapted = model(IDS)
        merge_lora(model)
        torch.testing.assert_close(model(IDS), adapted)


def test_what_cannot_be_adapted_is_refused_and_nothing_is_changed():
    model = transformer()
    trained = [parameter.requires_grad for parameter in model.parameters()]
    with pytest.raises(
        ValueError, match="no linear layer has the name 'query'; their names end in w_down, w_key, w_out"
    ):
        add_lora(model, rank=2, alpha=2, targets=["w_query", "query"])
    with pytest.raises(ValueError, match="rank=0 must be at least 1"):
        add_lora(model, rank=0, alpha=2)
    assert [parameter.requires_grad for parameter in model.parameters()] == trained
    assert not any(isinstance(module, LoRALinear) for module in model.modules())
    add_lora(model, rank=2, alpha=2, targets=["w_query"])
    with pytest.raises(ValueError, match="has LoRA layers already"):
        add_lora(model, rank=2, alpha=2, targets=["w_key"])
    with pytest.raises(TypeError, match="must be a torch.nn.Linear, not a LoRALinear"):
        LoRALinear.adapt_(LoRALinear(3, 2, rank=1, alpha=1), 1, 1)
    with pytest.raises(ValueError, match="rank=0"):
        LoRALinear(3, 2, rank=0, alpha=1)


def test_a_target_is_a_whole_word_of_a_name():
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(11)))
    assert add_lora(model, rank=1, alpha=1, targets=["0"]) == ["0"]


def test_it_compiles(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.layers.lora import LoRALinear
layer = LoRALinear(5, 3, rank=2, alpha=4)
torch.nn.init.normal_(layer.lora_b)
x = torch.randn(4, 5)
torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))
""")
