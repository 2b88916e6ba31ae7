"""The replay of an arena: battles that arrive in one order or another, rated by Elo and by Bradley and Terry."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

HUES = ("query", "key", "value", "weights", "position", "feedforward", "learned", "shaw")


class ArenaReplay(Widget):
    r"""Replay battles in several orders: Elo moves with each battle, and Bradley and Terry's ratings fit all so far.

    .. math:: R_A \leftarrow R_A + K (S_A - E_A), \quad E_A = \frac{1}{1 + 10^{(R_B - R_A) / 400}}

    When all battles are in, the ratings of Bradley and Terry are the same for every order, and those of Elo are not.
    The rank is one more than the number of models whose interval lies above that of the model. All ratings and
    intervals are rounded to whole points, and the ranks follow from the rounded ones.

    Args:
        models: names of the models, 2 to 8.
        n_battles: the numbers of battles after which there are ratings, in increasing order.
        elo: for each K, Elo's ratings in each order after so many battles, (orders, numbers of battles, models), as
            ``elo_history`` of ``llm_anatomy.evaluation`` gives them. The first order is that of time.
        ratings, low, high: the ratings of Bradley and Terry for the battles so far, and their intervals, of the same
            form; NaN where there are none.
        truth: the true ratings, if the battles are simulated.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for numbers that do not fit together.

    Source: Elo (1978); Chiang et al. (2024), "Chatbot Arena", section 4; IITD-01, GT-50.

    >>> ratings = [[[1000, 1000], [1095, 905]]] * 2
    >>> elo = {32: [[[1000, 1000], [1030, 970]], [[1000, 1000], [1048, 952]]]}
    >>> low, high = [[[900, 900], [1033, 842]]] * 2, [[[1100, 1100], [1158, 967]]] * 2
    >>> ArenaReplay(["alpha", "beta"], [0, 40], elo, ratings, low, high)  # doctest: +NORMALIZE_WHITESPACE
    Order 0, 40 battles, K = 32. alpha: Elo 1030, Bradley–Terry 1095, from 1033 to 1158, rank 1. beta: Elo 970,
    Bradley–Terry 905, from 842 to 967, rank 2. After all battles, the orders differ by up to 18 in Elo, and by 0
    in the ratings of Bradley and Terry.
    """

    sentence = (
        "Order {order}, {battles} battles, K = {k}. [[{models}: Elo {elo:.0f}, {known|no rating of Bradley and Terry"
        "|Bradley–Terry {rating:.0f}, from {low:.0f} to {high:.0f}, rank {rank:.0f}}.|| ]] After all battles, the "
        "orders differ by up to {widest:.0f} in Elo, and by {widest_fit:.0f} in the ratings of Bradley and Terry."
    )

    def __init__(
        self,
        models: Sequence[str],
        n_battles: Sequence[int],
        elo: Mapping[int, Tensor | Sequence],
        ratings: Tensor | Sequence,
        low: Tensor | Sequence,
        high: Tensor | Sequence,
        *,
        truth: Sequence[float | int] | None = None,
        caption: str = "",
    ):
        times = [int(number) for number in n_battles]
        if not 2 <= len(models) <= len(HUES) or len(times) < 2 or times != sorted(set(times)):
            raise ValueError(
                f"{len(models)} models and n_battles={times}; there must be 2 to {len(HUES)} models and at least two "
                "numbers of battles, in increasing order"
            )
        self.fits = torch.stack([torch.as_tensor(x).float().round() for x in (ratings, low, high)])
        self.elo = torch.stack([torch.as_tensor(x).float().round() for x in elo.values()])  # whole points
        n_orders, form = self.elo.shape[1], (len(times), len(models))
        if n_orders < 2 or self.elo.shape[2:] != form or self.fits.shape != (3, n_orders, *form):
            raise ValueError(
                f"elo has the shape {tuple(self.elo.shape[1:])} for each K and ratings {tuple(self.fits.shape[1:])}; "
                f"both must be at least two orders by {form[0]} numbers of battles by {form[1]} models"
            )
        self.times = torch.tensor(times)
        ends = torch.cat([self.elo.flatten(), self.fits[:, :, -1].flatten()])
        ends = ends[ends.isfinite()]
        self.truth = torch.tensor(
            [float(rating) for rating in truth] if truth is not None else [torch.nan] * len(models)
        )
        if len(self.truth) != len(models):
            raise ValueError(f"truth has {len(self.truth)} ratings for {len(models)} models; there must be as many")
        super().__init__(
            caption=caption,
            data={
                "models": list(models), "times": times, "hues": list(HUES), "rows": list(range(form[1])),
                "lower": [row + 0.28 for row in range(form[1])],
                "ranks": ["", *(f"rank {rank}" for rank in range(1, form[1] + 1))],
                "least": float(ends.min()) - 20, "most": float(ends.max()) + 20,
            },
            order=Slider(0, 0, n_orders - 1, label="order", ends=("as they came", "shuffled")),
            battles=Slider(times[-1], values=times, label="battles", hue="none"),
            k=Choice(list(elo), label="K"),
        )  # fmt: skip

    def compute(self, order, battles, k):
        at = (self.times == battles).int().argmax()
        of_k = self.elo.index_select(0, k[None])[0]
        elo = of_k.index_select(0, order[None])[0]
        rating, low, high = self.fits.index_select(1, order[None])[:, 0].index_select(1, at[None])[:, 0].unbind()
        first, last = of_k[:, -1].amin(0), of_k[:, -1].amax(0)
        bounds = self.data["least"], self.data["most"]
        return {
            "curves": torch.where(self.times[:, None] <= battles, elo, torch.nan).T,
            "elo": elo.index_select(0, at[None])[0],
            "rating": rating.nan_to_num(), "low": low.nan_to_num(), "high": high.nan_to_num(),
            "known": ~rating.isnan(),
            "dot": torch.where((rating >= bounds[0]) & (rating <= bounds[1]), rating, torch.nan),
            "left": low.clamp(*bounds), "right": high.clamp(*bounds), "rank": 1 + (low > high[:, None]).sum(1),
            "truth": self.truth, "first": first, "last": last, "widest": (last - first).amax(),
            "widest_fit": (self.fits[0, :, -1].amax(0) - self.fits[0, :, -1].amin(0)).amax().nan_to_num(),
        }  # fmt: skip

    def marks(self):
        n_models = len(self.data["models"])
        history = m.plot(
            *(m.line(f"curves[{i}]", "times", hue=HUES[i], width=2) for i in range(n_models)),
            m.rule(x="battles", hue="none"),
            x=m.axis(self.data["times"][0], self.data["times"][-1], "battles"), y=m.axis("least", "most", "Elo"),
            title="Elo, battle by battle", hint="the colours are those of the board", pick={"x": "battles"}, height=300,
        )  # fmt: skip
        board = m.plot(
            m.arrows("right", "rows", x0="left", y0="rows", head=False, hue="@hues", width=3),
            m.dots("truth", "rows", hue="none", size=9, hollow=True),
            m.dots("dot", "rows", hue="@hues", size=6, label="@ranks[rank]"),
            m.arrows("last", "lower", x0="first", y0="lower", head=False, hue="@hues", width=1.5),
            m.dots("elo", "lower", hue="@hues", size=5, diamond=True),
            x=m.axis("least", "most", "rating"), y=m.axis(labels="models"), title="The board",
            hint="dots: Bradley–Terry and its interval; diamonds: Elo; thin lines: Elo of all orders at the end"
            + ("" if self.truth.isnan().any() else "; rings: the truth"),
            height=60 + 48 * n_models,
        )  # fmt: skip
        facts = {
            "Elo: largest difference between orders": "{widest:.0f}",
            "Bradley–Terry: largest difference": "{widest_fit:.0f}",
        }
        return ["order", "battles", "k", history, board, m.facts(**facts)]
