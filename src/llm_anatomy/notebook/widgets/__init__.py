"""Widgets that work on the static page without a kernel, and in Jupyter and Colab with one."""

from llm_anatomy.notebook.widgets.attention_explorer import AttentionExplorer
from llm_anatomy.notebook.widgets.base import PageWidget
from llm_anatomy.notebook.widgets.bucket_explorer import BucketExplorer
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
    "CounterAndSinusoids",
    "DecayExplorer",
    "EncodingExplorer",
    "HeadsExplorer",
    "PageWidget",
    "RotorExplorer",
    "ScalingExplorer",
    "SchemeExplorer",
    "SlopesExplorer",
    "SoftDictionary",
    "TermMixer",
]
