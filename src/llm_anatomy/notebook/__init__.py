"""What a notebook of the book imports: quiet set-up, figures, widgets, predictions and checks."""

from llm_anatomy.notebook.checks import check
from llm_anatomy.notebook.figures import attention_map, colours, figure, glue, signed_map, source, weights_map
from llm_anatomy.notebook.predictions import Estimate, Prediction
from llm_anatomy.notebook.setup import setup
from llm_anatomy.notebook.widgets import (
    AttentionExplorer,
    BucketExplorer,
    CounterAndSinusoids,
    DecayExplorer,
    EncodingExplorer,
    HeadsExplorer,
    PageWidget,
    RotorExplorer,
    ScalingExplorer,
    SchemeExplorer,
    SlopesExplorer,
    SoftDictionary,
    TermMixer,
)

__all__ = [
    "AttentionExplorer",
    "BucketExplorer",
    "CounterAndSinusoids",
    "DecayExplorer",
    "EncodingExplorer",
    "Estimate",
    "HeadsExplorer",
    "PageWidget",
    "Prediction",
    "RotorExplorer",
    "ScalingExplorer",
    "SchemeExplorer",
    "SlopesExplorer",
    "SoftDictionary",
    "TermMixer",
    "attention_map",
    "check",
    "colours",
    "figure",
    "glue",
    "setup",
    "signed_map",
    "source",
    "weights_map",
]
