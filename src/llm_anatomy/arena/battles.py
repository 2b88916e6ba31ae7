"""Which battle a voter sees next: a sequence for each voter, which a reload does not change and nobody can predict."""

import hmac
import math
from typing import NamedTuple

from llm_anatomy.arena.outputs import Outputs

WINNERS = {"a": "A is better", "b": "B is better", "tie": "They are equally good", "both_bad": "Both are bad"}
"""What a vote may be, and how it is said."""


class Battle(NamedTuple):
    """Two outputs for the same prompt.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3; IITD-01.

    >>> Battle("Once", "small", "large", "upon a time", "there was a hare").model_b
    'large'
    """

    prompt: str
    model_a: str
    model_b: str
    output_a: str
    output_b: str


class Battles:
    r"""The battles of all voters. They depend on nothing but a secret, so that nothing needs to be stored.

    With N pairs of outputs, battle n of a voter is the pair

    .. math:: (b + n s) \bmod N, \quad \gcd(s, N) = 1

    where b, s and the sides come from the secret and the voter. So a voter sees no pair of outputs twice and, if every
    model has an output for every prompt, each pair of models once before any of them again.

    Args:
        outputs: what the models have written.
        secret: a key of at least 16 bytes.

    Raises:
        ValueError: if the secret is shorter.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3, where pairs are drawn at random; RFC 2104 (HMAC); IITD-01.

    >>> outputs = Outputs({"Once": {"small": "upon a time", "large": "there was a hare"}})
    >>> battles = Battles(outputs, secret=bytes(16))
    >>> battles.of("voter", 0) == battles.of("voter", 0), battles.of("voter", 1)
    (True, None)
    """

    def __init__(self, outputs: Outputs, secret: bytes):
        if len(secret) < 16:
            raise ValueError(f"secret has {len(secret)} bytes; it must have at least 16")
        self.outputs, self._secret = outputs, secret

    def of(self, voter: str, number: int) -> Battle | None:
        """The battle with this number, counted from 0, or None when the voter has seen all.

        Args:
            voter: who votes.
            number: how many battles the voter has decided before.
        """
        n = self.outputs.n_pairs
        if not 0 <= number < n:
            return None
        start = int(self.sign("start", voter), 16) % n
        step = int(self.sign("step", voter), 16) % n
        while math.gcd(step, n) > 1:
            step += 1
        prompt, *models = self.outputs.pair((start + number * step) % n)
        if int(self.sign("sides", voter, number), 16) % 2:
            models.reverse()
        a, b = models
        outputs = self.outputs.by_prompt[prompt]
        return Battle(prompt, a, b, outputs[a], outputs[b])

    def token(self, voter: str, number: int) -> str:
        """What a vote on this battle must show: it proves that the page of this battle went to this voter.

        Args:
            voter, number: as in :meth:`of`.
        """
        return self.sign("vote", voter, number, self.outputs.fingerprint)

    def sign(self, *parts: str | int) -> str:
        """A message authentication code, in hexadecimal digits.

        Args:
            parts: what is signed, first what for; none may contain a line break.
        """
        return hmac.digest(self._secret, "\n".join(map(str, parts)).encode(), "sha256").hex()
