"""One example of each widget, as a chapter uses it; the browser test drives all of them."""

import math
from importlib.resources import files

import torch

from llm_anatomy.data import table
from llm_anatomy.data_generation import prompts
from llm_anatomy.data_generation.filters import refused_by, rouge_l, words_of
from llm_anatomy.data_generation.parsing import parse_instructions
from llm_anatomy.data_generation.pipeline import grow
from llm_anatomy.data_generation.pool import Pool, read_tasks
from llm_anatomy.data_generation.rule_based import RuleBasedGenerator
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.elo import elo_history
from llm_anatomy.evaluation.arena.simulation import SimulatedArena
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.stored import stored
from llm_anatomy.notebook import widgets
from llm_anatomy.tokenizers.bpe import BPE, CharacterBPE
from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer, WordTokenizer
from llm_anatomy.tokenizers.unigram import Unigram

TOKENS = ["the", "teacher", "praised", "the", "pupil"]


def _attend(tokens, masked):
    scores = torch.randn(2, len(tokens), len(tokens), generator=torch.Generator().manual_seed(0))
    if masked:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def _flow(ids):
    x = torch.tensor([[1.0, -2.0], [0.0, 2.0], [3.0, 0.5], [-1.0, 1.5]])[ids]
    weights = (x @ x.mT).masked_fill(torch.ones(3, 3, dtype=torch.bool).triu(1), -torch.inf).softmax(-1)
    return {"embedding": x, "scores": torch.stack([x @ x.mT, 2 * x @ x.mT]), "weights": weights, "mixed": weights @ x}


def _terms():
    drawn = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(1))
    return dict(zip(["content", "position", "both"], drawn, strict=True))


def _tokenizers():
    texts = ["The teacher praised the pupil, and the pupil thanked the teacher for the praise. 2 + 2 is 4."]
    return {
        "letters": CharacterTokenizer.train(texts),
        "words": WordTokenizer.train(texts, 20),
        "bytes": ByteTokenizer(),
        "BPE": BPE.train(texts, 280),
        "character BPE": CharacterBPE.train(texts, 300),
        "Unigram": Unigram.train(texts, 300),
    }


def _translated():
    drawn = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(2)).mul(2).softmax(-1)
    dogs = {"source": ["two", "dogs", "will", "see", "him", "tomorrow"], "target": ["mon", "kavon", "duon", "vidun"]}
    tree = {"source": ["the", "big", "tree"], "target": ["wodo", "grano", "lo"]}
    links = [(0, 2), (1, 1), (2, 3), (3, 3), (5, 0)], [(0, 2), (1, 1), (2, 0)]
    weights = drawn, drawn[:, :3, :3] / drawn[:, :3, :3].sum(-1, keepdim=True)
    both = zip((dogs, tree), weights, links, strict=True)
    return [words | {"weights": w, "alignment": alignment} for words, w, alignment in both]


def _models():
    gpt2 = dict(d_model=768, n_layers=12, n_heads=12, n_kv_heads=12, d_ff=3072, gated=False, n_vocab=50257, tied=True)
    llama = dict(d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14336, gated=True, n_vocab=128256)
    return {"GPT-2": gpt2 | dict(n_ctx=1024), "Llama 3 8B": llama | dict(tied=False, n_ctx=8192)}


def _stories():
    (learned, metadata), (rope, _) = stored("story_learned"), stored("story_rope")
    words = "Once there was a girl called Mia. Mia had a red kite. One day Mia"
    models = {"learned": learned, "RoPE": rope}
    return widgets.TransformerExplorer(models, metadata["tokenizer"], words, caption="Look at the next token.")


def _gradients():
    noise = 0.2 * torch.randn(2, 3, 3, 12, generator=torch.Generator().manual_seed(3))
    layers, depths = torch.arange(1.0, 13), torch.tensor([3.0, 6, 12])
    means = torch.stack([1.9 + 0 * layers + 0 * depths[:, None], 6 / (layers + depths[:, None])])[:, :, None]
    known = (means * noise.exp()).masked_fill(layers > depths[:, None, None], torch.nan)
    return widgets.GradientByLayer(["post", "pre"], [3, 6, 12], known, caption="Look at the last layer.")


def _stability():
    generator, rates, depths = torch.Generator().manual_seed(4), [0.0005, 0.001, 0.004, 0.016, 0.064], [2, 4, 6, 12]
    hard = (
        torch.tensor(rates)[:, None]
        * torch.tensor(depths)[:, None, None]
        * torch.tensor([40.0, 10, 2, 2]).view(2, 2, 1, 1, 1)
    )
    losses = 2.4 + 0.7 * (hard + 0.1 * torch.randn(2, 2, 4, 5, 3, generator=generator)).clamp(0, 1)
    losses[0, 0, 3, 4, 1], losses[1, :, 3, 0] = torch.inf, torch.nan
    return widgets.StabilityMap(["post", "pre"], rates, depths, losses, 3.03, caption="Look at the edge.")


def _load():
    """Shares of 5 experts: all tokens end up with one of them, or the shares stay even."""
    drawn = torch.randn(2, 3, 1, 5, generator=torch.Generator().manual_seed(3))
    return (drawn * torch.tensor([[0.5, 2.0, 8.0, 16.0], [0.5, 0.3, 0.2, 0.1]])[:, None, :, None]).softmax(-1)


def ablated():
    """Made tables of the ablation lab, with a spread as in the paper: results, curves and speeds of all rows."""
    drawn = torch.randn(52, 6, generator=torch.Generator().manual_seed(6)).tolist()
    paper = {row["row"]: row for row in table("narang2021")}
    results, curves, speeds = [], [], []
    for (name, of_row), noise in zip(MODIFICATIONS.items(), drawn, strict=True):
        known = paper[of_row.row]
        ratio = {"name": name, "parameters": int(known["params_M"]) * 1000, "time_ratio": 3.5 / known["steps_per_s"]}
        ratio["flops_ratio"] = max(0.5, known["ops_T"] / 11.1) if known["ops_T"] else 1.0
        gap = 0.0 if name == "baseline" else 0.6 * (known["final_loss"] - 1.838) + 0.02 * noise[0]
        row = {"row": of_row.row, "name": name, "loss": 3.35 + gap, "spread": 0.02}
        for kind, cost in (("", 1.0), ("time_", ratio["time_ratio"]), ("flops_", ratio["flops_ratio"])):
            own, width = gap + 0.3 * math.log(max(cost, 0.5)), 0.01 + 0.02 * abs(noise[1])
            is_clear = abs(own) > 2 * width
            verdict = "within noise" if not is_clear else "better" if own < 0 else "worse"
            row |= {f"{kind}difference": own, f"{kind}low": own - width, f"{kind}high": own + width, f"{kind}p": 0.04}
            row |= {f"{kind}p_holm": 0.5, f"{kind}verdict": "baseline" if name == "baseline" else verdict}
        results.append(row)
        speeds.append(ratio)
        curves += [
            {"name": name, "step": 10 * n, "loss": 3.35 + gap + (2.5 + noise[2] / 5) * (10 / (9 + n) - 10 / 29)}
            for n in range(1, 21)
        ]
    results[13] |= {"loss": math.inf, "difference": math.inf, "low": -math.inf, "high": math.inf, "verdict": "unstable"}
    return results, curves, speeds


class Recorded:
    """A generator that keeps the instructions which it wrote in each round."""

    def __init__(self, generator):
        self.generator, self.rounds = generator, []

    def complete(self, asked, **settings):
        written = self.generator.complete(asked, **settings)
        if asked[0].endswith("Task 9:"):
            self.rounds.append([text for completion in written for text in parse_instructions(completion)])
        return written


def grown(n_tasks=30):
    """A pool that grew by the rule-based generator, and the instructions that were written in each round."""
    generator = Recorded(RuleBasedGenerator(flaw_rate=0.1))
    pool = Pool(read_tasks(files("llm_anatomy") / "data" / "instruction_seeds.jsonl"))
    grow(pool, generator, n_tasks=n_tasks, progress=False)
    return pool, generator.rounds


def rouge(first, second):
    """ROUGE-L of two instructions."""
    return rouge_l(words_of(first), words_of(second))


def _growth():
    pool, rounds = grown()
    seeds = [task.instruction for task in pool.seeds]
    return widgets.PoolGrowth(seeds, rounds, refused_by, rouge, caption="Look at the orange bars.")


def _prompts():
    pool, rounds = grown(8)
    seeds, new = ([task.instruction for task in tasks] for tasks in (pool.seeds, pool.generated))
    generator, settings = RuleBasedGenerator(), {"max_tokens": 80, "seed": 1}
    labels = "Decide whether the text is happy or sad."
    asked = {
        "classification": prompts.classification_prompt(labels),
        "input first": prompts.input_first_prompt(seeds[0]),
        "output first": prompts.output_first_prompt(labels),
    }
    answered = {name: (prompt, generator.complete([prompt], **settings)[0].text) for name, prompt in asked.items()}
    return widgets.PromptAssembly(seeds, new, rounds[0] + rounds[1], answered, caption="Look at the last task.")


def replayed(n_orders=5, every=30):
    """The arguments of the replay: simulated battles of six models, rated by Elo and by Bradley and Terry."""
    strengths = dict(amber=1120, birch=1080, cedar=1010, dune=1000, ember=940, flint=850)
    battles, _ = SimulatedArena(strengths).draw(600, seed=1)
    orders = [torch.arange(len(battles))]
    for seed in range(1, n_orders):
        orders.append(torch.randperm(len(battles), generator=torch.Generator().manual_seed(seed)))
    times = range(0, len(battles) + 1, every)
    fits = [
        [bradley_terry(battles.take(order[:n]), prior_deviation=400, interval="fisher") for n in times]
        for order in orders
    ]
    found = {
        name: torch.stack([torch.stack([getattr(fit, name) for fit in row]) for row in fits])
        for name in ("ratings", "low", "high")
    }
    elo = {k: torch.stack([elo_history(battles.take(order), k, every=every) for order in orders]) for k in (4, 16, 64)}
    return {"models": list(strengths), "n_battles": times, "elo": elo, "truth": list(strengths.values())} | found


EXAMPLES = {
    "AblationExplorer": lambda: widgets.AblationExplorer(*ablated(), caption="Look at what is left at equal time."),
    "ActivationExplorer": lambda: widgets.ActivationExplorer(caption="Look at the filled area."),
    "ArchitectureTable": lambda: widgets.ArchitectureTable(caption="Look at what differs."),
    "ArenaReplay": lambda: widgets.ArenaReplay(**replayed(), caption="Look at what the order changes."),
    "AttentionExplorer": lambda: widgets.AttentionExplorer(TOKENS, _attend, caption="Look at the arcs."),
    "BleuMatches": lambda: widgets.BleuMatches(caption="Look at the second “the cat”."),
    "BucketExplorer": lambda: widgets.BucketExplorer(caption="Look at the steps."),
    "BudgetToConfig": lambda: widgets.BudgetToConfig(caption="Look at the key-value heads."),
    "CacheCalculator": lambda: widgets.CacheCalculator(caption="Look at the crossing."),
    "CostCalculator": lambda: widgets.CostCalculator(_models(), caption="Look at the crossover."),
    "CounterAndSinusoids": lambda: widgets.CounterAndSinusoids(caption="Look at the hands."),
    "CrossAttentionExplorer": lambda: widgets.CrossAttentionExplorer(_translated(), caption="Look at the circles."),
    "DataMixture": lambda: widgets.DataMixture(caption="Look at what is read twice."),
    "DecayExplorer": lambda: widgets.DecayExplorer(caption="Look at the product."),
    "DecodingTimeline": lambda: widgets.DecodingTimeline(caption="Look at the grey."),
    "EmbeddingPlane": lambda: widgets.EmbeddingPlane(caption="Look at the neighbours."),
    "EncodingExplorer": lambda: widgets.EncodingExplorer(caption="Look at the curve."),
    "ExpertLoad": lambda: widgets.ExpertLoad(
        _load(), [0, 50, 200, 400], ["without balance loss", "with balance loss"], caption="Look at the bars."
    ),
    "GateSurface": lambda: widgets.GateSurface(caption="Look at the stripes."),
    "GradientByLayer": _gradients,
    "GradientThroughTime": lambda: widgets.GradientThroughTime(caption="Look at the slopes."),
    "FlowExplorer": lambda: widgets.FlowExplorer(
        _flow,
        TOKENS[:3] + TOKENS[4:],
        TOKENS[:3],
        dict(embedding="residual", scores="weights", weights="weights", mixed="value"),
        caption="Look at the frames.",
    ),
    "HeadSharing": lambda: widgets.HeadSharing(caption="Look at the lines."),
    "HeadsExplorer": lambda: widgets.HeadsExplorer(caption="Look at the rows."),
    "MergeStepper": lambda: widgets.MergeStepper("aaabdaaabac", 6, caption="Look at the length."),
    "ModelTimeline": lambda: widgets.ModelTimeline(caption="Look at the branches."),
    "LSTMGates": lambda: widgets.LSTMGates(caption="Look at the cell."),
    "NormalizedAxes": lambda: widgets.NormalizedAxes(caption="Look at the colons."),
    "NormalizedVector": lambda: widgets.NormalizedVector(caption="Look at the circle."),
    "OptimizerPaths": lambda: widgets.OptimizerPaths(caption="Look at the steep weight."),
    "PoolGrowth": _growth,
    "PromptAssembly": _prompts,
    "RankComparison": lambda: widgets.RankComparison(ablated()[0], caption="Look at the crossings."),
    "Roofline": lambda: widgets.Roofline(caption="Look at the ridge."),
    "RotorExplorer": lambda: widgets.RotorExplorer(caption="Look at the sum."),
    "RougeL": lambda: widgets.RougeL(
        "Write a short story about a dog.", "Write a story about a short dog, please.", caption="Look at the lines."
    ),
    "ScalingExplorer": lambda: widgets.ScalingExplorer(
        {d: d**0.5 * torch.randn(6, 8, generator=torch.Generator().manual_seed(d)) for d in (4, 8, 16, 32)},
        caption="Look at the gradient.",
    ),
    "ScheduleDesigner": lambda: widgets.ScheduleDesigner(caption="Look at the area."),
    "SchemeExplorer": lambda: widgets.SchemeExplorer(caption="Look at the diagonals."),
    "ShrinkingBatch": lambda: widgets.ShrinkingBatch(caption="Look at the scatter."),
    "SlopesExplorer": lambda: widgets.SlopesExplorer(caption="Look at the first head."),
    "SoftDictionary": lambda: widgets.SoftDictionary(
        [[1, 0], [0, 1]], [[1, 1], [-1, 1]], caption="Look at the output."
    ),
    "SpikeReplay": lambda: widgets.SpikeReplay(caption="Look at what comes first."),
    "StabilityMap": _stability,
    "TermMixer": lambda: widgets.TermMixer(_terms(), TOKENS, caption="Look at the sum."),
    "TieModel": lambda: widgets.TieModel(caption="Look at the gap to the dashed line."),
    "TokenizerComparison": lambda: widgets.TokenizerComparison(
        _tokenizers(), "The pupil's naïve teacher 🙂", caption="Look at the numbers of tokens."
    ),
    "VocabularyTradeOff": lambda: widgets.VocabularyTradeOff(
        {256: 1.0, 512: 2.3, 1024: 3.4, 1792: 4.2}, caption="Look at the ring."
    ),
    "TransformerExplorer": _stories,
}
