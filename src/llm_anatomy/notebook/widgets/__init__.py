"""Widgets that work on the static page without a kernel, and in Jupyter and Colab with one."""

from llm_anatomy.notebook.widgets.attention_explorer import AttentionExplorer
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.bucket_explorer import BucketExplorer
from llm_anatomy.notebook.widgets.controls import Choice, Point, Slider, Tick
from llm_anatomy.notebook.widgets.counter_and_sinusoids import CounterAndSinusoids
from llm_anatomy.notebook.widgets.decay_explorer import DecayExplorer
from llm_anatomy.notebook.widgets.encoding_explorer import EncodingExplorer
from llm_anatomy.notebook.widgets.heads_explorer import HeadsExplorer
from llm_anatomy.notebook.widgets.rotor_explorer import RotorExplorer
from llm_anatomy.notebook.widgets.scaling_explorer import ScalingExplorer
from llm_anatomy.notebook.widgets.scheme_explorer import SchemeExplorer
from llm_anatomy.notebook.widgets.slopes_explorer import SlopesExplorer
from llm_anatomy.notebook.widgets.soft_dictionary import SoftDictionary
from llm_anatomy.notebook.widgets.term_mixer import TermMixer

__all__ = [
    "AttentionExplorer",
    "BucketExplorer",
    "Choice",
    "CounterAndSinusoids",
    "DecayExplorer",
    "EncodingExplorer",
    "HeadsExplorer",
    "Point",
    "RotorExplorer",
    "ScalingExplorer",
    "SchemeExplorer",
    "Slider",
    "SlopesExplorer",
    "SoftDictionary",
    "TermMixer",
    "Tick",
    "Widget",
]
