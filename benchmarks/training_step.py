"""One step of training a GPT-2-like model: forward, loss, backward, AdamW; beside Hugging Face's GPT-2 and PyTorch's
nn.TransformerEncoder of the same sizes.

    python benchmarks/training_step.py

6 layers, width 384, 6 heads, 256 tokens, batch 8, vocabulary 8192, float32. Goals: 0.95 × Hugging Face, 1.0 ×
nn.TransformerEncoder, and bfloat16 autocast 0.65 × our float32. In each round all run once, in changing order. The last
line is a product of the feed-forward layer's sizes alone: where it gains nothing in bfloat16, no model can.
"""

import time

import torch
import torch.nn.functional as F
from measure import arguments, over, ratios, row, take_turns
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.transformer import Transformer

LAYERS, WIDTH, HEADS, TOKENS, BATCH, VOCAB = 6, 384, 6, 256, 8, 8192


class TorchEncoder(nn.Module):
    """PyTorch's own layers as a causal language model."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.embedding, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.register_buffer("hidden", nn.Transformer.generate_square_subsequent_mask(TOKENS))

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight
        return F.linear(self.layers(x, mask=self.hidden, is_causal=True), self.embedding.weight)


def contestants(device):
    ours = ModelConfig(
        d_model=WIDTH,
        n_layers=LAYERS,
        n_heads=HEADS,
        d_ff=4 * WIDTH,
        n_vocab=VOCAB,
        n_ctx=TOKENS,
        position="learned",
        feedforward="gelu_tanh",
        attention_bias=True,
        output_bias=True,
        ff_bias=True,
        tie_embeddings=True,
    )
    theirs = GPT2Config(
        vocab_size=VOCAB,
        n_positions=TOKENS,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        attn_implementation="sdpa",
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    models = {
        "ours": Transformer(ours),
        "Hugging Face GPT-2": GPT2LMHeadModel(theirs),
        "nn.TransformerEncoder": TorchEncoder(),
    }
    models["ours, bf16 autocast"] = Transformer(ours)
    return {name: (model.to(device).train(), name.endswith("autocast")) for name, model in models.items()}


def trainer(model, autocast, ids):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        start = time.perf_counter()
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=autocast):
            output = model(ids)
            logits = getattr(output, "logits", output)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if ids.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    return step


if __name__ == "__main__":
    given = arguments(__doc__)
    ids = torch.randint(0, VOCAB, (BATCH, TOKENS), device=given.device)
    steps = {name: trainer(model, autocast, ids) for name, (model, autocast) in contestants(given.device).items()}
    for step in steps.values():
        step()
    times = take_turns(steps, given.rounds)
    print(f"{'':44} ratio  quartiles     peer (ms)")
    for mine, peer, goal in [
        ("ours", "Hugging Face GPT-2", 0.95),
        ("ours", "nn.TransformerEncoder", 1.0),
        ("ours, bf16 autocast", "ours", 0.65),
    ]:
        row(f"{mine + ' / ' + peer:44}", over(times, mine, peer), goal)
    x, weight = (
        torch.randn(BATCH * TOKENS, WIDTH, device=given.device),
        torch.randn(4 * WIDTH, WIDTH, device=given.device),
    )
    narrow = x.bfloat16(), weight.bfloat16()
    measured = ratios(lambda *_: F.linear(*narrow), F.linear, [x, weight], rounds=given.rounds)
    row(f"{'one product, bfloat16 / float32':44}", measured)
