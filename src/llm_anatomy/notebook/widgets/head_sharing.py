"""Head sharing: which key-value head each query head reads, from multi-head to multi-query attention."""

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

N_TOKENS = 5
KINDS = ["multi-head attention", "grouped-query attention", "multi-query attention"]


class HeadSharing(Widget):
    r"""Show how groups of query heads share key-value heads, and what the cache then holds.

    Of H query heads and G key-value heads, counted from 1, query head h reads the key-value head

    .. math:: g(h) = \lceil h G / H \rceil

    so that G = H is multi-head attention and G = 1 is multi-query attention. A layer caches keys of shape (tokens, G
    d_head), and values of the same shape: the number of tokens stays, the width shrinks, and the cache takes G/H of
    what it takes with multi-head attention. The parameters of the two projections shrink as much.

    Args:
        n_heads: number of query heads, 2 to 16.
        n_kv_heads: the initial number of key-value heads, which divides ``n_heads``; the middle one of its divisors if
            it is not given.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a number of heads that is out of range or does not divide.

    Source: Ainslie et al. (2023), section 2.2 and figure 2; Shazeer (2019); CMU-11, CMU-12, CMU-15 (erratum E-33).

    >>> HeadSharing(8, 2)  # doctest: +NORMALIZE_WHITESPACE
    8 query heads and 2 key-value heads: grouped-query attention. Query head 1 reads key-value head 1, which serves
    query heads 1 to 4. The cache and the projections of keys and values take 25.0 % of what they take in multi-head
    attention.
    """

    sentence = (
        "{heads} query heads and {n_kv_heads} key-value {several|head|heads}: {kinds[at_kind]}. Query head {head} "
        "reads key-value head {shared}, which serves query {many|head {first}|heads {first} to {last}}. The cache and "
        "the projections of keys and values take {percent:.1f} % of what they take in multi-head attention."
    )

    def __init__(self, n_heads: int = 8, n_kv_heads: int | None = None, *, caption: str = ""):
        divisors = [n for n in range(whole("n_heads", n_heads, 2, 16), 0, -1) if n_heads % n == 0]
        if n_kv_heads is not None and whole("n_kv_heads", n_kv_heads, 1, n_heads) not in divisors:
            raise ValueError(f"{n_kv_heads=}; it must divide {n_heads=}, as all groups are equally large")
        self.divisors, self.numbers = torch.tensor(divisors), torch.arange(n_heads)
        super().__init__(
            caption=caption,
            data={
                "heads": n_heads,
                "kinds": KINDS,
                "names": [str(n) for n in divisors],
                "queries": (self.numbers + 1).tolist(),
                "labels": [str(h + 1) for h in range(n_heads)],
                "tokens": [str(t + 1) for t in range(N_TOKENS)],
                "line_hues": ["none", "weights"],
                "share_hues": ["none", "key"],
            },
            n_kv_heads=Choice(divisors, n_kv_heads or divisors[len(divisors) // 2], label="key-value heads"),
            head=Slider(1, 1, n_heads, label="query head", hue="query"),
        )

    def compute(self, n_kv_heads, head):
        heads, numbers, n_shared = self.data["heads"], self.numbers, self.divisors[n_kv_heads]
        group = torch.div(torch.tensor(heads), n_shared, rounding_mode="floor")
        reads = torch.div(numbers, group, rounding_mode="floor")  # the key-value head of each query head, from 0
        read = torch.div(head - 1, group, rounding_mode="floor")
        middles = numbers * group + (group + 1) / 2  # below the middle of its group
        there, read_now = numbers < n_shared, numbers == read
        cached = torch.where(there, torch.where(read_now, 0.9, 0.4), -torch.inf).expand(N_TOKENS, heads)
        return {
            "below": middles[reads], "kv_x": torch.where(there, middles, torch.nan),
            "column_x": torch.where(there, numbers.float(), torch.nan),
            "line_hue": (reads == read).int(), "line_width": torch.where(reads == read, 4.0, 1.5),
            "kv_size": torch.where(read_now, 10.0, 7.0), "query_size": torch.where(numbers == head - 1, 10.0, 7.0),
            "cached": cached, "shares": 100 * self.divisors / heads, "percent": 100 * n_shared / heads,
            "share_hue": (torch.arange(len(self.divisors)) == n_kv_heads).int(), "shared": read + 1,
            "first": read * group + 1, "last": (read + 1) * group, "group": group, "many": group > 1,
            "several": n_shared > 1, "at_kind": (n_shared < heads).int() + (n_shared == 1),
        }  # fmt: skip

    def marks(self):
        heads, queries = self.data["heads"], self.data["queries"]
        lines = m.plot(
            m.arrows(queries, 1, x0="below", y0=0, hue="@line_hues[line_hue]", width="line_width", head=False),
            m.dots(queries, 1, hue="query", size="query_size"),
            m.dots("kv_x", 0, hue="key", size="kv_size"),
            m.words(queries, 1.28, "labels", hue="query"),
            m.words("kv_x", -0.28, "labels", hue="key"),
            x=m.axis(0.4, heads + 0.6, ticks=[]), y=m.axis(-0.45, 1.45, ticks=[]), pick={"x": "head"},
            title="{kinds[at_kind]}", hint="above: query heads; below: key-value heads", height=230,
        )  # fmt: skip
        cached = m.plot(
            m.cells("cached", hue="key"),
            m.words("column_x", N_TOKENS - 0.1, "labels", hue="key"),
            x=m.axis(-0.5, heads - 0.5, ticks=[]), y=m.axis(labels="tokens", name="token"),
            title="Keys in the cache", hint="each cell: d_head numbers; grey: left out", height=230,
        )  # fmt: skip
        shares = m.plot(
            m.bars("shares", hue="@share_hues[share_hue]", across=True, text="{value:.1f}"),
            x=m.axis(0, 125, ticks=[]), y=m.axis(labels="names", name="key-value heads"),
            title="Size of the cache", hint="% of multi-head attention", height=230,
        )  # fmt: skip
        facts = {
            "query heads for each key-value head": "{group}",
            "cached for a token, in a layer": "2 · {n_kv_heads} · d_head numbers",
            "size of the cache": "{percent:.1f} %",
        }
        note = (
            "{many|Every query head has its own key-value head.|To convert a trained multi-head model, key head "
            "{shared} starts as the mean of the key heads {first} to {last}, and value head {shared} as that of the "
            "value heads.} The rows of the cache are the tokens; sharing heads leaves out columns, and no token."
        )
        return ["n_kv_heads", lines, "head", m.row(cached, shares), m.facts(**facts), m.note(note)]
