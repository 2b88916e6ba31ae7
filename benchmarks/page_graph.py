"""A whole Transformer in the page beside the same one in PyTorch: a step of 2 layers, 64 wide, with 64 tokens.

    python benchmarks/page_graph.py

The page runs the graph that ``torch.export`` makes of the model. In each round both run once, in changing order, as the
best of five; printed are the median of the page's time over PyTorch's, its quartiles, and PyTorch's milliseconds. The
goal is not a ratio: a step must take less than 50 ms in the page, which the last line says.
"""

from dataclasses import replace
from os import environ
from shutil import which
from statistics import median

import torch
from measure import arguments, best_of, over, row, take_turns
from playwright.sync_api import sync_playwright

from llm_anatomy.models.presets import tiny
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.notebook.front_end import HERE
from llm_anatomy.notebook.widgets.graph import export

GOAL = 50  # ms
STEP = """([shape, ids]) => Math.min(...[1, 2, 3, 4, 5].map(i => {
    const data = Int32Array.from(ids), begin = performance.now();
    data[0] = globalThis.count = (globalThis.count + 1) % 500;  // so that nothing is kept from the last step
    step({ ids: { shape, data } });
    return performance.now() - begin;
}))"""


def main() -> None:
    given = arguments(__doc__)
    small = {"n_heads": 4, "n_kv_heads": 4, "d_head": 16, "d_ff": 256, "n_vocab": 512, "n_ctx": 64}
    model = Transformer(replace(tiny("gpt-2"), d_model=64, n_layers=2, **small)).eval().to(given.device)
    ids, pool = torch.randint(0, 512, (1, 64), device=given.device), []
    graph = export(lambda ids: {"logits": model(ids)}, {"ids": ids}, pool, module=model)
    program = environ.get("CHROMIUM") or which("chromium") or which("chromium-browser") or which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_script_tag(content=(HERE / "widgets/graph.js").read_text("utf-8") + "globalThis.count = 0;")
        page.evaluate("([graph, pool]) => { globalThis.step = load(graph, pool.map(decode)); }", [graph, pool])
        inputs = [list(ids.shape), ids.flatten().tolist()]
        for _ in range(5):
            page.evaluate(STEP, inputs)
        both = {"page": lambda: page.evaluate(STEP, inputs) / 1e3, "pytorch": best_of(5, model, [ids])}
        times = take_turns(both, given.rounds)
        browser.close()
    row("a step in the page over one in PyTorch", over(times, "page", "pytorch"))
    step = 1e3 * median(times["page"])
    print(f"a step in the page: {step:.1f} ms{'' if step < GOAL else f', above the goal of {GOAL} ms'}")


if __name__ == "__main__":
    main()
