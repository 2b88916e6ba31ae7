"""An arena for a class: anonymous outputs side by side, votes, and a board with ratings that follow from them.

    python -m llm_anatomy arena serve

What voters see lies in one file of outputs (``outputs``). Each voter has a sequence of battles of their own
(``battles``), votes go into a database (``votes``), and the board is computed from them (``board``). ``app`` is the web
application.
"""
