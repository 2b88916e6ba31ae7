"""A stand-in for a language model: rules that continue the three prompts of Self-Instruct about the stories' world."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random, SystemRandom

from llm_anatomy.data_generation.generators import Completion, FinishReason
from llm_anatomy.training.data.story_instructions import KINDS, SEEN_KINDS, Instruction, phrasings, respond

UNUSABLE = (
    "Draw an image of the hero.",
    "Plot a graph of the story.",
    "Sing.",
    "- and then the same for the others",
    "Écris une phrase avec ce mot.",
)
"""Instructions that filters refuse: they ask for pictures, are too short, begin in their middle, or are not English."""


@dataclass(frozen=True)
class RuleBasedGenerator:
    """Continues the prompts of Self-Instruct as a language model might, with the errors of one, but by rules.

    It is no model: it knows the kinds of instructions in :mod:`llm_anatomy.training.data.story_instructions`, and draws
    from them. It lets the pipeline run in seconds and without a network, and since an exact check exists for all that
    it writes, it shows what a real model's data cannot show: which of its answers are wrong.

    Of its instructions, some repeat those of the prompt word for word or almost so, and some cannot be used. With the
    input first, four of five inputs of a classification have the same label, as models do it; with the label first,
    the labels take turns. Some instances lack their output.

    Args:
        kinds: the kinds of instructions that it knows.
        error_rate: how many of its outputs are wrong, from 0 to 1. A wrong output is right for another input of the
            same kind, or for a classification, another label.
        n_instances: number of instances that it writes for one task.
        flaw_rate: how many of its instructions are repetitions, and how many cannot be used, each; and how many of its
            instances lack their output.

    Raises:
        ValueError: if there is no such kind, a rate is not from 0 to 1, or ``n_instances`` is below 1.

    Source: Wang et al. (2022), sections 2.2 and 3.2, for the prompts and for the errors; GT-46, GT-47.

    >>> generator = RuleBasedGenerator(error_rate=0.0, flaw_rate=0.0)
    >>> prompt = "Task 1: Which word comes first?\\nTask 2:"
    >>> (completion,) = generator.complete([prompt], max_tokens=40, stop=["\\nTask 4"], seed=1)
    >>> print(completion.text)
     Continue the story by one sentence.
    Task 3: Name the thing that the text is about.
    """

    kinds: Sequence[str] = SEEN_KINDS
    error_rate: float = 0.1
    n_instances: int = 4
    flaw_rate: float = 0.1

    def __post_init__(self):
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise ValueError(f"kinds={unknown or self.kinds!r} must be some of {', '.join(KINDS)}")
        for name in ("error_rate", "flaw_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)!r} must be from 0 to 1")
        if self.n_instances < 1:
            raise ValueError(f"n_instances={self.n_instances!r} must be at least 1")

    def complete(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> list[Completion]:
        """Continue each prompt.

        Args:
            prompts: such as :mod:`llm_anatomy.data_generation.prompts` writes them.
            max_tokens: the most words and punctuation marks of a completion, which are its tokens.
            stop: a completion ends before the first of these.
            temperature, top_p: have no effect, since nothing is sampled from a distribution.
            seed: with the same seed, the same prompts have the same completions; by default, each call differs.
        """
        seed = SystemRandom().getrandbits(32) if seed is None else seed
        return [self._completion(prompt, Random(f"{seed}/{prompt}"), max_tokens, stop) for prompt in prompts]

    def _completion(self, prompt: str, rng: Random, max_tokens: int, stop: Sequence[str]) -> Completion:
        text = self._text(prompt, rng)
        text = text[: min([len(text), *(at for one in stop if (at := text.find(one)) >= 0)])]
        tokens = [match.end() for match in re.finditer(TOKEN, text)]
        reason: FinishReason = "length" if len(tokens) > max_tokens else "stop"
        if reason == "length":
            text, tokens = text[: tokens[max_tokens - 1]], tokens[:max_tokens]
        return Completion(text, len(re.findall(TOKEN, prompt)), len(tokens), reason)

    def _text(self, prompt: str, rng: Random) -> str:
        last = prompt.rstrip().rpartition("\n")[2]
        if number := re.fullmatch(r"Task (\d+):", last):
            return self._instructions(re.findall(r"^Task \d+: (.+)", prompt, re.MULTILINE), int(number[1]), rng)
        tasks = re.findall(r"^Task: (.+)", prompt, re.MULTILINE)
        if not tasks:
            return "\n"
        kind = next((kind for kind in KINDS if tasks[-1].strip() in phrasings(kind)), None)
        if last.endswith("classification?"):
            is_classification = kind is not None and bool(KINDS[kind].labels)
            return (" No", " Yes")[is_classification != (rng.random() < self.error_rate / 2)]
        kind = kind or rng.choice(self.kinds)  # it does not understand the task, and writes something all the same
        output_first = re.search(r"^Class label:", prompt, re.MULTILINE) is not None
        return self._instances(kind, tasks[-1], output_first=output_first, rng=rng)

    # --- Instructions ---

    def _instructions(self, shown: Sequence[str], first: int, rng: Random) -> str:
        numbered = enumerate((self._instruction(shown, rng) for _ in range(8)), start=first)
        lines = [f"Task {number}: {text}" for number, text in numbered]
        return "\n".join(lines).removeprefix(f"Task {first}:")

    def _instruction(self, shown: Sequence[str], rng: Random) -> str:
        chance = rng.random()
        if shown and chance < self.flaw_rate / 2:
            return rng.choice(shown)
        if shown and chance < self.flaw_rate:
            again = rng.choice(shown)
            return f"Please {again[:1].lower()}{again[1:]}"
        if chance < 2 * self.flaw_rate:
            return rng.choice(UNUSABLE)
        return rng.choice(phrasings(rng.choice(self.kinds)))

    # --- Instances ---

    def _instances(self, kind: str, text: str, *, output_first: bool, rng: Random) -> str:
        labels = KINDS[kind].labels
        usual, blocks = rng.choice(labels or ("",)), []
        for number in range(1, self.n_instances + 1):
            wanted = labels[number % len(labels)] if labels and output_first else usual
            if labels and not output_first and rng.random() < 0.2:
                wanted = rng.choice(labels)
            instruction, output = self._instance(kind, text, wanted, rng)
            if rng.random() < self.error_rate:
                output = self._wrong(instruction, output, rng)
            if rng.random() < self.flaw_rate / 2:
                output = ""
            if output_first:
                blocks.append(f"Class label: {output}\nInput: {instruction.input}")
            else:
                blocks.append(f"Example {number}\nInput: {instruction.input}\nOutput: {output}")
        return "\n".join(blocks)

    def _instance(self, kind: str, text: str, wanted: str, rng: Random) -> tuple[Instruction, str]:
        while True:
            instruction = Instruction(kind, text, KINDS[kind].draw(rng, False))
            output = respond(instruction, rng)
            if not wanted or output == wanted:
                return instruction, output

    def _wrong(self, instruction: Instruction, output: str, rng: Random) -> str:
        if labels := KINDS[instruction.kind].labels:
            return rng.choice([label for label in labels if label != output])
        return respond(Instruction(instruction.kind, instruction.text, KINDS[instruction.kind].draw(rng, False)), rng)


TOKEN = r"\w+|[^\w\s]"
