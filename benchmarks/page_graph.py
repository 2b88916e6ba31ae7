"""A stored story model in the page beside the same one in PyTorch: a step of 2 layers, 64 wide, with 96 tokens.

    python benchmarks/page_graph.py

The page runs the graph of the operators that the model calls. In each round both run once, in changing order, as the
best of five; printed are the median of the page's time over PyTorch's, its quartiles, and PyTorch's milliseconds. The
goal is not a ratio: a step must take less than 50 ms in the page. So the last lines are the milliseconds of the graph,
and those of the whole widget from a pressed token to the last mark, with heads, norms, probabilities and drawing.
"""

from os import environ
from shutil import which
from statistics import median

import torch
from measure import arguments, best_of, over, row, take_turns
from playwright.sync_api import sync_playwright

from llm_anatomy.models.stored import stored
from llm_anatomy.notebook import TransformerExplorer
from llm_anatomy.notebook.front_end import HERE
from llm_anatomy.notebook.widgets.graph import export
from llm_anatomy.training.data.stories import story

GOAL = 50  # ms
STEP = """([shape, ids]) => Math.min(...[1, 2, 3, 4, 5].map(i => {
    const data = Int32Array.from(ids), begin = performance.now();
    data[0] = globalThis.count = (globalThis.count + 1) % 480;  // so that nothing is kept from the last step
    step({ ids: { shape, data } });
    return performance.now() - begin;
}))"""
PRESS = """() => {
    const begin = performance.now();
    document.querySelector(".la-next button").click();
    document.body.getBoundingClientRect();  // the layout as well
    return performance.now() - begin;
}"""


def main() -> None:
    given = arguments(__doc__)
    model, metadata = stored("story_rope")
    model = model.to(given.device)
    ids, pool = torch.randint(0, 480, (1, 96), device=given.device), []
    graph = export(lambda ids: {"logits": model(ids)}, {"ids": ids}, pool)
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
        explorer = TransformerExplorer({"RoPE": model.cpu()}, metadata["tokenizer"], story(7).text)
        page.set_content(f"<!doctype html><html data-theme=light><body style='max-width:740px'>{explorer.html()}")
        page.wait_for_selector(".la-ready")
        pressed = [min(page.evaluate(PRESS) for _ in range(5)) for _ in range(given.rounds)]
        browser.close()
    row("a step in the page over one in PyTorch", over(times, "page", "pytorch"))
    for what, step in {"a step of the graph": 1e3 * median(times["page"]), "of the widget": median(pressed)}.items():
        print(f"{what} in the page: {step:.1f} ms{'' if step < GOAL else f', above the goal of {GOAL} ms'}")


if __name__ == "__main__":
    main()
