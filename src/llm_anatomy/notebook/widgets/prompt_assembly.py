"""The prompts of Self-Instruct, put together from tasks, and where the model's answer to them ends."""

import random
from collections.abc import Mapping, Sequence

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider
from llm_anatomy.notebook.widgets.text import harmless

N_IN_CONTEXT, N_SEEDS, STOP, DRAWS, MOST = 8, 6, 16, 12, 20
"""The tasks in a prompt, how many of them are seeds, the task before which the model stops, the draws to choose from,
and the most generated tasks."""
NEW, HEAD = "new tasks", "Continue this list of varied tasks."
LIMITS = [5, 10, 20, 30, 40, 60, 80, 120, 240]
ORIGINS = ("seed task", "generated task", "example")
FATES = ("complete", "at the limit, left out", "not written")


def sample(n_seeds: int, n_generated: int, draw: random.Random) -> list[int]:
    """The numbers of the eight tasks of a prompt: first come the seeds, then the generated tasks."""
    own = min(N_IN_CONTEXT - N_SEEDS, n_generated)
    tasks = draw.sample(range(n_seeds), N_IN_CONTEXT - own)
    tasks += [n_seeds + number for number in draw.sample(range(n_generated), own)]
    draw.shuffle(tasks)
    return tasks


class PromptAssembly(Widget):
    """Put the prompts of Self-Instruct together, and follow the model's answer up to where it ends.

    The prompt for new tasks shows eight numbered instructions, six of them from the seed tasks and two that were
    generated earlier, or fewer while there are not two, and an open Task 9. The answer ends before Task 16 or at
    the limit of its length, here counted in words, which stand for tokens; an instruction that is cut off is left out.
    Other kinds of prompts, which the caller hands in, show fixed examples and end with the new task.

    Args:
        seeds: instructions that people wrote, at least eight.
        generated: instructions that a model wrote, at most ``MOST``.
        written: the instructions that a model writes for Task 9 and those that follow.
        prompts: the other kinds by name, each with its prompt, whose blocks are separated by empty lines, and the
            model's answer.
        limit: the initial limit of the answer's length, in words, one of ``LIMITS``.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for fewer than eight seeds, more than ``MOST`` generated instructions, or nothing written.

    Source: Wang et al. (2022), section 2.2; GT-46, GT-47.

    >>> seeds, written = [f"Name {n} colours." for n in range(2, 12)], [f"Name the colour {n}." for n in range(9)]
    >>> repr(PromptAssembly(seeds, [], written, limit=10)).split("; ")[-1]
    'Task 10: Name the colour 1. (at the limit, left out). The answer ends at the limit.'
    """

    sentence = (
        "Prompt for {form}: {heads[form]} [[{form#| |Task {#}: |}{pieces[shown]} ({origins[origin]})||; ]]. "
        "{ends[form]} The model writes: [[{answers[answer]} ({fates[fate]})||; ]]. The answer ends "
        "{end|at the limit|by itself|before Task 16}."
    )

    def __init__(
        self,
        seeds: Sequence[str],
        generated: Sequence[str],
        written: Sequence[str],
        prompts: Mapping[str, tuple[str, str]] | None = None,
        limit: int = 120,
        *,
        caption: str = "",
    ):
        seeds, written = list_of_strings("seeds", seeds), list_of_strings("written", written)
        generated, prompts = list(generated), dict(prompts or {})
        if len(seeds) < N_IN_CONTEXT or len(generated) > MOST:
            raise ValueError(
                f"there are {len(seeds)} seeds and {len(generated)} generated instructions; there must be "
                f"{N_IN_CONTEXT} seeds or more, and at most {MOST} generated ones"
            )
        self.n_seeds, self.n_pool = len(seeds), len(seeds) + len(generated)
        pieces, heads, ends = [*seeds, *generated], [HEAD], [f"Task {N_IN_CONTEXT + 1}:"]
        answers = [[f"Task {number}: {text}" for number, text in enumerate(written, N_IN_CONTEXT + 1)]]
        answers[0][STOP - N_IN_CONTEXT - 1 :] = [f"Task {STOP}"] if len(written) >= STOP - N_IN_CONTEXT else []
        blocks = [[]]
        for prompt, answer in prompts.values():
            head, *middle, end = (" ↵ ".join(block.strip().split("\n")) for block in prompt.split("\n\n"))
            heads.append(head)
            blocks.append([len(pieces) + n for n in range(len(middle))])
            pieces += middle
            ends.append(end)
            answers.append([line for line in answer.split("\n") if line.strip()])
        drawn = [
            [sample(len(seeds), n, random.Random(number)) for number in range(1, DRAWS + 1)]
            for n in range(len(generated) + 1)
        ]
        widest = max(N_IN_CONTEXT, *map(len, blocks))
        self.blocks = torch.tensor([row + [-1] * (widest - len(row)) for row in blocks])
        self.drawn = torch.tensor([[row + [-1] * (widest - N_IN_CONTEXT) for row in rows] for rows in drawn])
        longest = max(map(len, answers))
        ends_at = [[len(" ".join(row[: n + 1]).split()) for n in range(longest)] for row in answers]
        self.ends_at = torch.tensor(ends_at)  # in words
        self.ends_at[0] -= 2  # "Task 9:" stands in the prompt
        self.n_answers = torch.tensor([len(row) for row in answers])
        self.n_answers[0] = min(len(written), STOP - N_IN_CONTEXT - 1)
        self.stops = torch.tensor([len(answers[0]) > self.n_answers[0], *[False] * len(prompts)])
        first = [sum(map(len, answers[:form])) for form in range(len(answers))]
        self.first = torch.tensor(first)
        super().__init__(
            caption=caption,
            data={
                "heads": [harmless(head) for head in heads],
                "ends": [harmless(end) for end in ends],
                "pieces": [harmless(piece) for piece in pieces],
                "answers": [harmless(line) for row in answers for line in row],
                "origins": list(ORIGINS),
                "fates": list(FATES),
            },
            form=Choice([NEW, *prompts], label="prompt for"),
            draw=Slider(1, 1, DRAWS),
            n_generated=Slider(len(generated), 0, len(generated), label="generated tasks so far"),
            limit=Slider(limit, values=LIMITS, label="limit in words"),
        )

    def compute(self, form, draw, n_generated, limit):
        own = form[None]
        blocks = self.blocks.index_select(0, own)[0]
        shown = torch.where(form == 0, self.drawn[n_generated, draw - 1], blocks)
        origin = (shown >= self.n_seeds).int() + (shown >= self.n_pool).int()
        ends_at, n, first, stops = (
            x.index_select(0, own)[0] for x in (self.ends_at, self.n_answers, self.first, self.stops)
        )
        at = torch.arange(len(ends_at))
        complete = (at < n) & ((ends_at < limit) | ((ends_at == limit) & (at == n - 1)))
        kept = complete.sum()
        written = (at < n) & (at <= kept)
        last = (at == n) & (kept == n) & stops
        numbers = torch.where(written | last, first + at, torch.nan)
        seeds, generated = (((shown >= 0) & (origin == which)).sum() for which in (0, 1))
        return {
            "shown": torch.where(shown >= 0, shown, torch.nan), "origin": origin, "answer": numbers,
            "fate": torch.where(last, 2, (~complete).int()), "n_seeds": seeds, "n_new": generated,
            "kept": kept, "end": (kept == n).int() + ((kept == n) & stops).int(),
        }  # fmt: skip

    def marks(self):
        prompt = m.chips(
            "{form#| |Task {#}: |}{pieces[shown]}", below="{origins[origin]}", title="{heads[form]}",
            hint="{form#||eight tasks in random order|examples}; a line break is written as ↵",
        )  # fmt: skip
        answer = m.chips(
            "{answers[answer]}", below="{fates[fate]}", title="{ends[form]}",
            hint="and then the answer of the model",
        )  # fmt: skip
        facts = {
            "seed tasks in the prompt": "{n_seeds:.0f}", "generated tasks in the prompt": "{n_new:.0f}",
            "complete parts of the answer": "{kept:.0f}",
            "the answer ends": "{end|at the limit|by itself|before Task 16}",
        }  # fmt: skip
        return ["form", "draw", "n_generated", "limit", prompt, answer, m.facts(**facts)]
