"""The Bradley–Terry model: ratings by maximum likelihood, with intervals, ties, and covariates such as style."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from llm_anatomy.evaluation._arrays import Array, Number, as_doubles, check_confidence
from llm_anatomy.evaluation.arena.battles import Battles, count_battles, pair_indices
from llm_anatomy.evaluation.arena.ranks import rank_upper_bound, win_probability
from llm_anatomy.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Ratings:
    """Ratings of models with their intervals.

    Args:
        models: names of the models.
        ratings: the rating of each model.
        low, high: the interval of each rating, relative to the mean of all models.
        covariance: covariance of the ratings, in squared points.
        scale: the lead that means ten wins for each loss.
        log_likelihood: logarithm of the likelihood of the battles, in nats.
        effects: worth of one unit of each covariate, in points of rating.
        effect_errors: standard errors of the effects.
        tie_parameter: Davidson's parameter; 0 where ties are half wins.
        confidence: of the intervals.

    Source: Bradley and Terry (1952); Chiang et al. (2024), "Chatbot Arena", section 4; IITD-01, GT-50.

    >>> ratings = bradley_terry(Battles(["alpha", "beta"], [0] * 40, [1] * 40, [1] * 30 + [0] * 10))
    >>> for row in ratings.rows():
    ...     print(row["rank"], row["model"], f"{row['rating']:.0f} ({row['low']:.0f} to {row['high']:.0f})")
    1 alpha 1095 (1033 to 1158)
    2 beta 905 (842 to 967)
    """

    models: Sequence[str]
    ratings: Float[Tensor, "models"]
    low: Float[Tensor, "models"]
    high: Float[Tensor, "models"]
    covariance: Float[Tensor, "models models"]
    scale: float
    log_likelihood: float
    effects: Float[Tensor, "covariates"]
    effect_errors: Float[Tensor, "covariates"]
    tie_parameter: float
    confidence: float

    @property
    def ranks(self) -> Int[Tensor, "models"]:
        """The rank of each model by :func:`~llm_anatomy.evaluation.arena.ranks.rank_upper_bound`."""
        return rank_upper_bound(self.low, self.high)

    def rows(self) -> list[dict[str, Any]]:
        """The board: one row for each model, the best first."""
        columns = (self.models, *(x.tolist() for x in (self.ranks, self.ratings, self.low, self.high)))
        names = ("model", "rank", "rating", "low", "high")
        board: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return sorted(board, key=lambda row: -row["rating"])

    def win_probability(self, first: str, second: str) -> float:
        """Probability that one model wins against another, where a tie counts as half a win.

        Args:
            first, second: names of two models.
        """
        a, b = self._index(first), self._index(second)
        d = (self.ratings[a] - self.ratings[b]).item()
        if not self.tie_parameter:
            return win_probability(d, 0.0, self.scale)
        half = 10 ** (d / self.scale / 2)
        return (half + self.tie_parameter / 2) / (half + 1 / half + self.tie_parameter)

    def difference(self, first: str, second: str) -> tuple[float, float, float]:
        """Difference of two ratings with its interval, which takes into account how their errors are correlated.

        Args:
            first, second: names of two models.
        """
        a, b = self._index(first), self._index(second)
        variance = self.covariance[a, a] + self.covariance[b, b] - 2 * self.covariance[a, b]
        half = NormalDist().inv_cdf((1 + self.confidence) / 2) * math.sqrt(max(variance.item(), 0.0))
        d = (self.ratings[a] - self.ratings[b]).item()
        return d, d - half, d + half

    def _index(self, model: str) -> int:
        if model not in self.models:
            raise ValueError(f"{model=} must be one of {', '.join(self.models)}")
        return list(self.models).index(model)


def bradley_terry(
    battles: Battles,
    *,
    ties: str = "half",
    covariates: Array | None = None,
    interval: str = "sandwich",
    confidence: Number = 0.95,
    anchor: tuple[str, Number] | None = None,
    prior_deviation: Number | None = None,
    scale: Number = 400.0,
    n_samples: int = 100,
    seed: int = 0,
) -> Ratings:
    r"""Rate models by the strengths under which their battles are most likely, whatever the order of the battles.

    .. math:: P(i \text{ beats } j) = \frac{1}{1 + e^{-d}}, \quad d = \theta_i - \theta_j + z^\top \beta, \quad
        R_i = 1000 + \frac{400}{\ln 10}\, \theta_i

    The likelihood is concave, so Newton's method finds its maximum in a few steps; with no covariates each needs only
    the counts of wins and ties of each pair. If ``ties`` is ``"half"``, a tie is half a win for both. In Davidson's
    model it is an outcome of its own, with a parameter that says how frequent ties are:

    .. math:: P(i \text{ beats } j) : P(\text{tie}) : P(j \text{ beats } i) = e^{d/2} : \nu : e^{-d/2}

    The battles alone fix differences of ratings only, so the intervals are those of the ratings relative to the mean of
    all models. An anchor shifts all ratings alike and changes no interval.

    Args:
        battles: who met whom, with which score.
        ties: half wins, or Davidson's model.
        covariates: what else may sway the voter, such as length and markup, (battles, covariates): the first answer's
            value minus the second's. A column of ones measures the advantage of the left side.
        interval: ``"sandwich"`` holds also if the model is wrong; ``"clustered"`` also if the votes of one voter depend
            on each other, but it needs many voters; ``"fisher"`` trusts the model; ``"bootstrap"`` draws the battles
            again.
        confidence: of the intervals, between 0 and 1.
        anchor: the name of a model and its rating; by default the mean of all ratings is 1000.
        prior_deviation: standard deviation of a normal prior of the ratings, in points, which keeps the rating of a
            model finite that has always won or never played. With ``interval="fisher"`` the intervals are then those of
            the posterior.
        scale: the lead that means ten wins for each loss.
        n_samples: number of bootstrap samples.
        seed: seed of the bootstrap.

    Raises:
        ValueError: if an argument is not allowed, or the ratings are not finite, because some models have only won
            against the others or never met them.

    Source: Bradley and Terry (1952); Davidson (1970); Ford (1957) for when ratings are finite; Chiang et al. (2024),
    section 4, and Huber (1967) for the sandwich; IITD-01, GT-50.

    >>> battles = Battles(["alpha", "beta", "gamma"], [0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 0, 1], [1, 0, 1, 0.5, 0.5, 0])
    >>> [round(rating) for rating in bradley_terry(battles, anchor=("gamma", 1100)).ratings.tolist()]
    [1241, 1309, 1100]
    """
    for name, value, allowed in (
        ("ties", ties, ("half", "davidson")),
        ("interval", interval, ("sandwich", "clustered", "fisher", "bootstrap")),
    ):
        if value not in allowed:
            raise ValueError(f"{name}={value!r} must be one of {', '.join(allowed)}")
    check_confidence(confidence)
    if anchor is not None and anchor[0] not in battles.models:
        raise ValueError(f"anchor={anchor[0]!r} must be one of {', '.join(battles.models)}")
    if prior_deviation is not None and prior_deviation <= 0:
        raise ValueError(f"{prior_deviation=} must be positive")
    if interval == "clustered" and battles.voter is None:
        raise ValueError("interval='clustered' needs battles with a voter")
    points = scale / math.log(10)
    precision = 0.0 if prior_deviation is None else (points / prior_deviation) ** 2
    n = len(battles.models)
    cells = _cells(battles, covariates, ties == "davidson", one_by_one=interval == "clustered")
    if not precision:
        _check_finite(battles)
    if cells.has_ties and not (0 < cells.counts[:, 1].sum() < cells.counts.sum()):
        raise ValueError("ties='davidson' needs battles that tie and battles that do not")
    x, log_likelihood = _newton(cells, precision)
    if interval == "bootstrap":
        samples = _bootstrap(cells, x, precision, n_samples, seed)
        covariance = samples.T.cov()
        ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=torch.float64)
        low, high = points * torch.quantile(samples[:, :n], ends, dim=0)
    else:
        covariance = _covariance(cells, x, precision, interval, battles.voter)
        half = NormalDist().inv_cdf((1 + confidence) / 2) * points * covariance.diagonal()[:n].clamp(min=0).sqrt()
        low, high = points * x[:n] - half, points * x[:n] + half
    shift = 1000.0 if anchor is None else anchor[1] - points * x[battles.models.index(anchor[0])].item()
    units = slice(n, n + cells.z.shape[1])
    return Ratings(
        models=battles.models,
        ratings=points * x[:n] + shift,
        low=low + shift,
        high=high + shift,
        covariance=points**2 * covariance[:n, :n],
        scale=float(scale),
        log_likelihood=log_likelihood,
        effects=points * x[units] / cells.units,
        effect_errors=points * covariance.diagonal()[units].clamp(min=0).sqrt() / cells.units,
        tie_parameter=math.exp(x[-1].item()) if cells.has_ties else 0.0,
        confidence=float(confidence),
    )


@dataclass(frozen=True)
class _Cells:
    """Battles that are alike, counted: who met whom, the covariates, and how often the first won, tied and lost."""

    n_models: int
    first: Int[Tensor, "cells"]
    second: Int[Tensor, "cells"]
    z: Float[Tensor, "cells covariates"]  # in units of their root mean square
    units: Float[Tensor, "covariates"]
    counts: Float[Tensor, "cells 3"]
    has_ties: bool  # as an outcome of their own, after Davidson


def _cells(battles: Battles, covariates: Array | None, has_ties: bool, one_by_one: bool) -> _Cells:
    n = len(battles.models)
    if covariates is None and not one_by_one:
        wins, ties = count_battles(battles)
        first, second = pair_indices(n)
        counts = torch.stack([wins[first, second], ties[first, second], wins[second, first]], 1)
        met = counts.sum(1) > 0
        none = torch.zeros(int(met.sum()), 0, dtype=torch.float64)
        return _Cells(n, first[met], second[met], none, none.sum(0), counts[met], has_ties)
    z = torch.zeros(len(battles), 0, dtype=torch.float64)
    if covariates is not None:
        z = as_doubles(covariates, "covariates", 2)
        if len(z) != len(battles):
            raise ValueError(f"covariates has {len(z)} rows for {len(battles)} battles; there must be as many")
    units = z.square().mean(0).sqrt()
    if not z.isfinite().all() or (units == 0).any():
        raise ValueError("each column of covariates must be finite, and not zero throughout")
    counts = F.one_hot((2 - 2 * battles.score).long(), 3).double()
    return _Cells(n, battles.first, battles.second, z / units, units, counts, has_ties)


def _newton(cells: _Cells, precision: float, start: Tensor | None = None) -> tuple[Tensor, float]:
    """The parameters at the maximum, models first, and the logarithm of the likelihood there."""
    n = cells.n_models
    size = n + cells.z.shape[1] + cells.has_ties
    x = torch.zeros(size, dtype=torch.float64) if start is None else start.clone()
    prior = torch.zeros(size, dtype=torch.float64)
    prior[:n] = precision
    log_likelihood, gradient, hessian = _derivatives(cells, x)
    for _ in range(100):
        height = log_likelihood - (prior * x**2).sum().item() / 2
        step, failed = torch.linalg.solve_ex(_fix_mean(hessian, n) + prior.diag(), gradient - prior * x)
        if failed or not step.isfinite().all() or x.abs().max() > 100:
            break
        for halvings in range(40):
            new = x + step / 2**halvings
            log_likelihood, gradient, hessian = _derivatives(cells, new)
            if log_likelihood - (prior * new**2).sum().item() / 2 >= height - 1e-10 * abs(height):
                break
        x = new
        if step.abs().max() < 1e-9:
            return x, log_likelihood
    raise ValueError("the likelihood has no maximum: the covariates are collinear, or something foretells all votes")


def _fix_mean(hessian: Tensor, n_models: int) -> Tensor:
    """The Hessian, curved also where all ratings move alike, which leaves the likelihood as it is."""
    fixed = hessian.clone()
    fixed[:n_models, :n_models] += hessian.diagonal()[:n_models].mean().clamp(min=1e-12) / n_models
    return fixed


def _outcomes(cells: _Cells, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of a win, a tie and a loss, and what each says of d and of the parameter of ties."""
    n, k = cells.n_models, cells.z.shape[1]
    d = x[cells.first] - x[cells.second] + cells.z @ x[n : n + k]
    if cells.has_ties:
        log_p = torch.stack([d / 2, x[-1].expand_as(d), -d / 2], 1).log_softmax(1)
        p = log_p.exp()
        features = torch.tensor([[0.5, 0.0], [0.0, 1.0], [-0.5, 0.0]], dtype=torch.float64)
        spread = features.T @ (p[:, :, None] * features) - (p @ features)[:, :, None] * (p @ features)[:, None, :]
        return log_p, features - (p @ features)[:, None], spread
    log_p = torch.stack([F.logsigmoid(d), (F.logsigmoid(d) + F.logsigmoid(-d)) / 2, F.logsigmoid(-d)], 1)
    p = torch.sigmoid(d)
    return (
        log_p,
        torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)[:, None] - p[:, None, None],
        (p * (1 - p))[:, None, None],
    )


def _derivatives(cells: _Cells, x: Tensor) -> tuple[float, Tensor, Tensor]:
    """Logarithm of the likelihood, its gradient, and minus its Hessian."""
    log_p, scores, spread = _outcomes(cells, x)
    slopes = (cells.counts[:, :, None] * scores).sum(1)
    return (
        (cells.counts * log_p).sum().item(),
        _spread_out(cells, slopes),
        _quadratic(cells, cells.counts.sum(1)[:, None, None] * spread),
    )


def _spread_out(cells: _Cells, slopes: Tensor) -> Tensor:
    """The gradient of all parameters from the slopes in d and in the parameter of ties of each cell."""
    models = torch.zeros(cells.n_models, dtype=torch.float64)
    models.index_add_(0, cells.first, slopes[:, 0]).index_add_(0, cells.second, -slopes[:, 0])
    return torch.cat([models, cells.z.T @ slopes[:, 0], slopes[:, 1:].sum(0)])


def _quadratic(cells: _Cells, curvature: Tensor) -> Tensor:
    r"""The sum over cells of :math:`x c x^\top`, where x are the rows of the design, which is never written out."""
    n, k = cells.n_models, cells.z.shape[1]
    c = curvature[:, 0, 0]
    weights = torch.bincount(cells.first * n + cells.second, c, minlength=n * n).reshape(n, n)
    weights = weights + weights.T
    size = n + k + cells.has_ties
    total = torch.zeros(size, size, dtype=torch.float64)
    total[:n, :n] = weights.sum(0).diag() - weights
    for j in range(k):
        column = _spread_out(cells, (c * cells.z[:, j])[:, None])
        total[n + j, : n + k] = column
        total[: n + k, n + j] = column
    if cells.has_ties:
        both = _spread_out(cells, curvature[:, 0, 1][:, None])
        total[-1, : n + k] = both
        total[: n + k, -1] = both
        total[-1, -1] = curvature[:, 1, 1].sum()
    return total


def _covariance(cells: _Cells, x: Tensor, precision: float, interval: str, voter: Tensor | None) -> Tensor:
    """Covariance of the parameters, of the ratings relative to their mean."""
    n = cells.n_models
    _, scores, spread = _outcomes(cells, x)
    bread = _fix_mean(_quadratic(cells, cells.counts.sum(1)[:, None, None] * spread), n)
    bread[:n, :n] += precision * torch.eye(n, dtype=torch.float64)
    inverse = torch.linalg.inv(bread)
    if interval == "fisher":
        covariance = inverse
    elif interval == "sandwich":
        squares = torch.einsum("co,cot,cou->ctu", cells.counts, scores, scores)
        covariance = inverse @ _quadratic(cells, squares) @ inverse
    else:
        assert voter is not None
        slopes = (cells.counts[:, :, None] * scores).sum(1)
        rows = torch.zeros(int(voter.max()) + 1, len(x), dtype=torch.float64)
        rows.view(-1).index_add_(0, voter * len(x) + cells.first, slopes[:, 0])
        rows.view(-1).index_add_(0, voter * len(x) + cells.second, -slopes[:, 0])
        rest = torch.cat([cells.z * slopes[:, :1], slopes[:, 1:]], 1)
        rows[:, n:].index_add_(0, voter, rest)
        n_voters = len(voter.unique())
        if n_voters < 2:
            raise ValueError("interval='clustered' needs at least two voters")
        covariance = inverse @ (rows.T @ rows) @ inverse * n_voters / (n_voters - 1)
    centre = torch.eye(len(x), dtype=torch.float64)
    centre[:n, :n] -= 1 / n
    return centre @ covariance @ centre


def _bootstrap(cells: _Cells, x: Tensor, precision: float, n_samples: int, seed: int) -> Tensor:
    """The parameters in each of many samples, as many battles drawn again from those that there are."""
    if n_samples < 2:
        raise ValueError(f"{n_samples=} must be at least 2")
    rng = np.random.default_rng(seed)
    shares = (cells.counts / cells.counts.sum()).flatten().numpy()
    found = []
    for _ in range(n_samples):
        drawn = torch.from_numpy(rng.multinomial(int(cells.counts.sum()), shares / shares.sum()).astype(np.float64))
        try:
            sample, _ = _newton(replace(cells, counts=drawn.reshape(-1, 3)), precision, start=x)
        except ValueError:
            raise ValueError(
                "a bootstrap sample has no finite ratings, since a model has too few battles: use interval='sandwich' "
                "or give prior_deviation"
            ) from None
        sample[: cells.n_models] -= sample[: cells.n_models].mean()
        found.append(sample)
    return torch.stack(found)


def _check_finite(battles: Battles) -> None:
    """Refuse battles in which some models have only won against the others, or never met them."""
    wins, ties = count_battles(battles)
    scored = (wins + ties) > 0
    for edges, what in ((scored, "never won or tied against"), (scored.T, "never lost or tied against")):
        reached = torch.zeros(len(battles.models), dtype=torch.bool)
        reached[:1] = True
        for _ in battles.models:
            reached = reached | edges[reached].any(0)
        if not reached.all():
            names = np.array(battles.models)
            group, others = names[reached.numpy()].tolist(), names[~reached.numpy()].tolist()
            raise ValueError(
                f"the ratings are not finite: {_list(group)} {what} {_list(others)}; leave models out, or give a "
                "prior_deviation"
            )


def _list(models: Sequence[str]) -> str:
    return ", ".join(models[:4]) + (f" and {len(models) - 4} others" if len(models) > 4 else "")
