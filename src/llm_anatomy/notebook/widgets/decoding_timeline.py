"""The decoding timeline: requests of different lengths that are generated together, in batches or one by one."""

from collections.abc import Sequence

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

CHUNK = 256
"""Tokens of a prompt that a step reads."""
BATCHES = [1, 2, 3, 4, 5, 6]
REQUESTS = {  # (tokens of the prompt, tokens of the output) of each request, in the order in which they arrive
    "different lengths": [
        (400, 6), (150, 24), (900, 9), (100, 4), (600, 14), (250, 30),
        (1000, 5), (200, 18), (300, 8), (700, 22), (120, 12), (500, 7),
    ],
    "one long output": [(400, 8)] * 3 + [(400, 48)] + [(400, 8)] * 8,
    "equal lengths": [(400, 12)] * 12,
}  # fmt: skip
BATCHING = ["static", "continuous"]
SAID = [
    "With one slot, the requests are processed one after the other, and each step reads all weights for one token.",
    "Prompts are padded to the longest of their batch, and all slots wait for the longest output.",
    "A slot goes to the next request as soon as its own is complete. Slots are idle only when no request is left.",
    "Where all lengths are equal, both kinds of batching are the same, and slots are idle in the last batch at most.",
]


def schedule(
    requests: Sequence[tuple[int, int]], batch: int, *, continuous: bool, chunk: int = CHUNK
) -> list[tuple[int, int, int, int]]:
    r"""Find out when each request is processed, if at most ``batch`` sequences share a step.

    A prompt of p tokens is read in :math:`\lceil p / \mathrm{chunk} \rceil` steps. The last of them yields the first
    token of the output, and each further step one more. All steps are assumed to take equally long, as they do while
    reading the weights determines their time.

    Static batching takes the next ``batch`` requests at once, and pads their prompts on the left to the longest, so
    that they decode together. The next batch begins when the longest of their outputs is complete. Continuous batching
    gives the slot of a finished request to the next one at once.

    Args:
        requests: (tokens of the prompt, tokens of the output) of each, in the order in which they arrive.
        batch: number of slots.
        continuous: whether the batching is continuous.
        chunk: tokens of a prompt that a step reads.

    Returns:
        For each request, its slot, from 0, and three steps: after which it takes the slot, after which its prompt has
        been read, padding included, and after which it is complete.

    Source: Yu et al. (2022), "Orca", section 3, for continuous batching; Agrawal et al. (2024), "Sarathi-Serve",
    section 4, for prompts in chunks; Pope et al. (2022), section 2; CMU-10.

    >>> schedule([(256, 2), (256, 9), (256, 3)], batch=2, continuous=False)
    [(0, 0, 1, 2), (1, 0, 1, 9), (0, 9, 10, 12)]
    >>> schedule([(256, 2), (256, 9), (256, 3)], batch=2, continuous=True)
    [(0, 0, 1, 2), (1, 0, 1, 9), (0, 2, 3, 5)]
    """
    lengths = [(-(-prompt // chunk), output - 1) for prompt, output in requests]
    found, free = [], [0] * batch  # the step at which each slot is free
    for number, (prefill, decode) in enumerate(lengths):
        if continuous:
            slot = free.index(min(free))
            start, first = free[slot], free[slot] + prefill
        else:
            slot, of_batch = number % batch, lengths[number - number % batch :][:batch]
            start = max(free) if slot == 0 else found[-1][1]
            first = start + max(prefill for prefill, _ in of_batch)
        free[slot] = first + decode
        found.append((slot, start, first, free[slot]))
    return found


class DecodingTimeline(Widget):
    r"""Show twelve requests that share the steps of a model, under static or continuous batching.

    The requests arrive together, and :func:`schedule` finds the steps of each. With N tokens of output in all, S steps
    and B slots, of whose BS steps b are busy,

    .. math:: \mathrm{throughput} = N / S, \quad \mathrm{idle\ share} = 1 - \frac{b}{B S}

    A slot is busy while it reads a prompt or generates a token. It is idle during padding, while it waits for others,
    and when no request is left.

    Args:
        requests: the initial requests: "different lengths", "one long output" or "equal lengths".
        batching: "static" or "continuous", at first.
        batch: the initial number of slots, 1 to 6.
        caption: one sentence that says what to look for.

    Source: Yu et al. (2022), "Orca", section 3; Pope et al. (2022), section 2 (prefill and decode); CMU-10.

    >>> DecodingTimeline()  # doctest: +NORMALIZE_WHITESPACE
    12 requests of different lengths, static batching with 4 slots: 84 steps for 159 tokens, 1.89 tokens per step. The
    slots are idle 48.8 % of the time. The first token of a request comes after 32.7 steps on average.
    """

    sentence = (
        "12 requests {words[requests]}, {batching} batching with {batch} {several|slot|slots}: {steps} steps for "
        "{tokens} tokens, {speed:.2f} tokens per step. The slots are idle {idle:.1f} % of the time. The first token of "
        "a request comes after {wait:.1f} steps on average."
    )

    def __init__(
        self,
        requests: str = "different lengths",
        batching: str = "static",
        batch: int = 4,
        *,
        caption: str = "",
    ):
        known = [
            [[schedule(own, n, continuous=way) for n in BATCHES] for way in (False, True)] for own in REQUESTS.values()
        ]
        self.schedules = torch.tensor(known).float()  # (requests, batching, batches, 12, 4)
        self.lengths = torch.tensor([[(-(-p // CHUNK), n - 1) for p, n in own] for own in REQUESTS.values()]).float()
        self.tokens = torch.tensor([sum(n for _, n in own) for own in REQUESTS.values()])
        count = self.lengths.shape[1]
        super().__init__(
            caption=caption,
            data={
                "words": ["of different lengths", "of which one has a long output", "of equal lengths"],
                "labels": ["", *(str(n + 1) for n in range(count))],
                "batches": BATCHES,
                "hues": ["key", "query"],
                "said": SAID,
            },
            requests=Choice(REQUESTS, requests),
            batching=Choice(BATCHING, batching),
            batch=Slider(batch, BATCHES[0], BATCHES[-1], label="slots"),
        )

    def compute(self, requests, batching, batch):
        schedules, lengths, tokens = self.schedules[requests], self.lengths[requests], self.tokens[requests]
        slot, _, first, end = schedules[batching, batch - 1].unbind(-1)
        prefill, decode = lengths.unbind(-1)
        steps, busy = end.amax(), lengths.sum()
        all_steps = schedules[..., -1].amax(-1)  # (batching, batches)

        def boxes(left, right):
            return torch.stack((left, right, right, left), -1)

        down, up = slot + 0.54, slot + 1.46
        at_prefill, at_decode = boxes(first - prefill, first), boxes(first, end)
        longest = torch.where(torch.arange(len(BATCHES)) == batch - 1, all_steps, 0).amax()  # of both kinds of batching
        wide = end - first > 0.07 * longest  # enough for a number of two digits on a phone
        slots = torch.arange(1, BATCHES[-1] + 1)
        zero, edge = torch.zeros(1), batch.float()[None] + 0.5
        return {
            "prefill_x": at_prefill, "decode_x": at_decode,
            "box_y": torch.stack((down, down, up, up), -1),
            "label": torch.where(wide, torch.arange(len(slot)) + 1, 0),
            "frame_x": boxes(zero, steps[None]),
            "frame_y": torch.stack((zero + 0.5, zero + 0.5, edge, edge), -1),
            "slots": torch.where(slots <= batch, slots, torch.nan), "steps": steps, "longest": longest,
            "tokens": tokens,
            "speed": tokens / steps, "speeds": tokens / all_steps[0], "continuous_speeds": tokens / all_steps[1],
            "idle": 100 * (1 - busy / (batch * steps)), "wait": first.mean(), "several": batch > 1,
            "way": batching, "case": torch.where(batch > 1, 1 + torch.where(requests == 2, 2, batching), 0),
        }  # fmt: skip

    def marks(self):
        timeline = m.plot(
            m.area("frame_x", "frame_y", hue="normalization", share=[0.25]),
            m.area("prefill_x", "box_y", hue="query", share=[0.85] * 12),
            m.area("decode_x", "box_y", hue="value", share=[0.4] * 12, text="labels[label]"),
            x=m.axis(0, "longest", "step"), y=m.axis(0.5, BATCHES[-1] + 0.5, "slot", ticks="slots"),
            title="Requests in their slots", hint="blue: reads the prompt; green: a token each step; grey: idle",
            height=300,
        )  # fmt: skip
        speed = m.plot(
            m.line("speeds", "batches", hue="key"),
            m.line("continuous_speeds", "batches", hue="query"),
            m.dots("batch", "speed", hue="@hues[way]", size=7),
            x=m.axis(BATCHES[0], BATCHES[-1], "slots", ticks=BATCHES), y=m.axis(0, 6),
            title="Tokens per step", hint="blue: continuous batching; orange: static",
            pick={"x": "batch"}, height=220,
        )  # fmt: skip
        facts = {"steps": "{steps}", "tokens per step": "{speed:.2f}", "idle": "{idle:.1f} %"}
        facts |= {"steps until the first token, on average": "{wait:.1f}"}
        return ["requests", "batching", timeline, "batch", m.facts(**facts), m.note("{said[case]}"), speed]
