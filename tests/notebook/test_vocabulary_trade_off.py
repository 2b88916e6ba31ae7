"""The vocabulary trade-off: its lengths and costs are those of the package, and what it refuses."""

import pytest

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.costs import costs
from llm_anatomy.notebook import VocabularyTradeOff
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.metrics import bytes_per_token
from llm_anatomy.training.data.stories import story_text

RATES = {256: 1.0, 512: 2.3, 1024: 3.4, 1792: 4.2}


@pytest.mark.syllabus("UCL-09", "GT-41")
def test_lengths_and_tables_follow_from_the_rates():
    widget = VocabularyTradeOff(RATES)
    widget.kilobytes, widget.d_model = 8, 64
    for size, rate in RATES.items():
        widget.n_vocab = size
        shown = widget.outputs()
        assert shown["tokens"] == pytest.approx(8000 / rate) and shown["table"] == pytest.approx(size * 64 / 1e6)
        assert shown["total"] == pytest.approx(shown["totals"][list(RATES).index(size)])
        assert sum(shown["shares"]) == pytest.approx(100)


@pytest.mark.syllabus("UCL-05", "UCL-09")
def test_the_operations_are_those_of_a_model_without_a_mask():
    widget = VocabularyTradeOff({500: 4.0, 600: 5.0})
    widget.n_vocab, widget.kilobytes, widget.d_model, widget.n_layers = 500, 1, 64, 2
    config = ModelConfig(d_model=64, n_layers=2, n_heads=4, d_ff=256, n_vocab=500, position="rope", norm="rmsnorm")
    total = costs(config, n_tokens=250).total.flops
    assert widget.outputs()["total"] * 1e9 == pytest.approx(total)


@pytest.mark.syllabus("UCL-09")
def test_the_cheapest_vocabulary_grows_with_the_text():
    text = story_text(100_000)
    widget = VocabularyTradeOff(
        {n: bytes_per_token(BPE.train([text], n), [text]) for n in (256, 512, 1024, 1536, 1792)}
    )
    widget.d_model, widget.n_layers, cheapest = 32, 1, []
    for widget.kilobytes in (1, 2, 4, 8, 16, 32):
        cheapest.append(widget.outputs()["cheapest"])
    assert cheapest == sorted(cheapest) and cheapest[0] < cheapest[-1] == 1792


@pytest.mark.parametrize(
    "rates", [None, {}, {256: 1.0}, {256: 1.0, 512: 0.0}, {256: 1.0, 512: "many"}, {0.5: 1.0, 2: 2}]
)
def test_bad_rates_are_refused(rates):
    with pytest.raises(ValueError, match=r"bytes_per_token|positive|must be a finite number"):
        VocabularyTradeOff(rates)
