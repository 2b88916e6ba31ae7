"""Detection of loss spikes: a step whose loss or gradient norm stands far above those of the steps before it."""

import math
from collections import deque
from itertools import pairwise
from statistics import median

import torch

from llm_anatomy.shapes import Tensor


class SpikeDetector:
    r"""Say whether a step is a spike, from its loss and its gradient norm.

    With the median :math:`m` of the last losses, and the noise :math:`\sigma` that their differences from step to step
    show, a loss is a spike if

    .. math:: L > m + z\, \max(\sigma, 0.01\, |m|), \quad
        \sigma = \frac{1.4826}{\sqrt 2}\, \mathrm{median}\, |L_i - L_{i-1}|

    where the factor is that of a normal distribution. A gradient norm is a spike if it is more than ``gradient_factor``
    times the median of the last ones. A loss or a gradient norm that is not finite is always one. Medians hardly notice
    a spike that is among the last steps. The loss of a run's beginning falls, which neither raises the noise nor makes
    a spike, since it is then below the median. If the loss stays high, it is no longer a spike after half a window.

    Args:
        window: number of the last steps to compare with, at least 4; there is no comparison before half of them.
        loss_threshold: :math:`z`, the number of standard deviations of the noise, above 0.
        gradient_factor: the multiple of the median of the gradient norms, above 1.

    Raises:
        ValueError: if an argument is out of range.

    Source: Chowdhery et al. (2022), "PaLM", section 5.1, for rewinding after a spike; Leys et al. (2013), "Detecting
    outliers", for the rule with medians; GT-03.

    >>> detector = SpikeDetector(window=8)
    >>> [detector.check(loss=2 + 0.1 * (step % 3), gradient_norm=1.0) for step in range(8)] == [None] * 8
    True
    >>> detector.check(loss=3.7, gradient_norm=1.2)
    'loss 3.7 is far above the median 2.1 of the last 8 steps'
    >>> detector.check(loss=2.2, gradient_norm=24.0)
    'gradient norm 24 is far above the median 1 of the last 8 steps'
    """

    def __init__(self, window: int = 100, loss_threshold: float = 6.0, gradient_factor: float = 10.0):
        if window < 4:
            raise ValueError(f"{window=} must be at least 4")
        if not loss_threshold > 0:
            raise ValueError(f"{loss_threshold=} must be above 0")
        if not gradient_factor > 1:
            raise ValueError(f"{gradient_factor=} must be above 1")
        self.window, self.loss_threshold, self.gradient_factor = window, loss_threshold, gradient_factor
        self._last: deque[tuple[float, float]] = deque(maxlen=window)

    def check(self, loss: float, gradient_norm: float) -> str | None:
        """Return why the step is a spike, or None if it is not, and remember its numbers if they are finite.

        Args:
            loss: of the step.
            gradient_norm: of the step, before clipping.
        """
        for name, value in (("loss", loss), ("gradient norm", gradient_norm)):
            if not math.isfinite(value):
                return f"{name} {value} is not finite"
        reason = self._reason(loss, gradient_norm) if 2 * len(self._last) >= self.window else None
        self._last.append((loss, gradient_norm))
        return reason

    def _reason(self, loss: float, gradient_norm: float) -> str | None:
        losses, norms = zip(*self._last, strict=True)
        usual, usual_norm = median(losses), median(norms)
        noise = 1.4826 / math.sqrt(2) * median(abs(b - a) for a, b in pairwise(losses))
        max_loss = usual + self.loss_threshold * max(noise, 0.01 * abs(usual))
        max_norm = self.gradient_factor * usual_norm
        for name, value, limit, center in (
            ("loss", loss, max_loss, usual),
            ("gradient norm", gradient_norm, max_norm, usual_norm),
        ):
            if value > limit:
                return f"{name} {value:.4g} is far above the median {center:.4g} of the last {len(losses)} steps"
        return None

    def state_dict(self) -> dict[str, Tensor]:
        """Return the numbers of the last steps, (window, 2), with NaN for steps that there have not been."""
        missing = [(math.nan, math.nan)] * (self.window - len(self._last))
        return {"last": torch.tensor([*missing, *self._last], dtype=torch.float64)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a state; if its window was longer, with the last steps of it."""
        self._last.clear()
        self._last.extend((loss, norm) for loss, norm in state["last"].tolist() if not math.isnan(loss))
