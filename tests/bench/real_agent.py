"""A real model: the single agent beside a plain loop of tool calls, with the same tools, questions and server.

    make bench BENCH=--real MODEL=model.gguf                            # or the address of a llama.cpp server, with /v1
    python -m tests.bench.real_agent http://127.0.0.1:8080/v1 30       # 30 questions; 14 unless told

Never in CI: it takes minutes, and nothing else may run. The plain loop asks for one JSON object a step, lists its tools
in the system message and appends what they return; it reads no form but its own and asks for no reasoning.
"""

import inspect
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.benchmarks.sample_set import SAMPLE
from eval.scorers.gaia import question_scorer
from mas.llm.profiles.gguf_model import start_server
from mas.tools.attachments import use_attachments
from mas.tools.calculator import calculator
from mas.tools.read_file import read_file
from tests.bench.measuring import ROOT
from tests.bench.tables import Table

QUESTIONS, SLOTS, CONTEXT_TOKENS = 14, 2, 16_384
MAX_STEPS, MAX_TOKENS = 8, 300
TOOLS: dict[str, Callable[..., str]] = {"calculator": calculator, "read_file": read_file}
LISTED = "\n".join(f"- {name}{inspect.signature(tool)}: {inspect.getdoc(tool)}" for name, tool in TOOLS.items())
SYSTEM = (
    "You answer one question with tools. If a file is attached, read it first, under its exact name. Use the "
    f"calculator for every calculation.\n\nTools:\n{LISTED}\n\nReply with exactly one JSON object and nothing else:\n"
    '{"tool": "<name>", "arguments": {...}}   to call a tool, or\n'
    '{"final_answer": "<a number, a few words, or a comma-separated list; no units unless asked>"}'
)
COLUMNS = (
    "",
    "right",
    "no answer",
    "seconds",
    "seconds an answer",
    "requests",
    "tool calls",
    "tokens in",
    "cached",
    "tokens out",
)


@dataclass
class Counts:
    """What one contender did."""

    right: int = 0
    unanswered: int = 0
    requests: int = 0
    tool_calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0


def real_agent(url: str, n_questions: int = QUESTIONS) -> Table:
    """Measure both on the first questions of the sample's validation split."""
    table = Table(f"Single agent and a plain loop, {n_questions} questions, two tools, {SLOTS} at once", COLUMNS)
    for name, measure in (("plain loop", _run_plain_loop), ("single agent", _run_single_agent)):
        began = time.monotonic()
        counts = measure(url, n_questions)
        seconds = time.monotonic() - began
        cached = f"{counts.tokens_cached / max(1, counts.tokens_in):.0%}"
        of_each = (counts.requests, counts.tool_calls, counts.tokens_in, cached, counts.tokens_out)
        right = f"{counts.right} of {n_questions}"
        table.add([name, right, counts.unanswered, round(seconds), round(seconds / n_questions, 1), *of_each])
        table.keep(name, n_questions, {"seconds": seconds, **vars(counts)})
    return table


def _run_single_agent(url: str, n_questions: int) -> Counts:
    with tempfile.TemporaryDirectory() as work:
        tools = f"system.agents.agent.tools=[{','.join(TOOLS)}]"
        model = ("model=llamacpp", f"model.base_url={url}", f"model.max_connections={SLOTS}")
        options = ("system=single_agent", "data=sample", f"limit={n_questions}", f"run.dir={work}/run", "tracking=off")
        command = [sys.executable, "eval/run.py", *model, *options, tools]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if ran.returncode not in (0, 2):
            raise SystemExit(f"the single agent ended with {ran.returncode}: {ran.stderr.strip()[-1000:]}")
        found = json.loads(Path(work, "run/summary.json").read_text(encoding="utf-8"))
    used = found["usage"]
    tokens = (used["input_tokens"], used["cached_input_tokens"], used["output_tokens"])
    return Counts(found["n_correct"], found["n_error"], used["lm_calls"], used["tool_calls"], *tokens)


def _run_plain_loop(url: str, n_questions: int) -> Counts:
    lines = (SAMPLE / "val" / "metadata.jsonl").read_text(encoding="utf-8").splitlines()[:n_questions]
    counts = Counts()
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(lambda line: _answer(url, json.loads(line), counts), lines))
    return counts


def _answer(url: str, row: dict[str, str], counts: Counts) -> None:
    file = row["file_name"]
    asked = f"Question: {row['Question']}" + (f"\nAttached file: {file}" if file else "")
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}]
    with use_attachments([SAMPLE / "val" / file] if file else []):
        for _ in range(MAX_STEPS):
            text = _ask(url, messages, counts)
            messages.append({"role": "assistant", "content": text})
            try:
                step, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
            except ValueError:
                messages.append({"role": "user", "content": "That was not one JSON object. Reply with one."})
                continue
            if "final_answer" in step:
                counts.right += question_scorer(step["final_answer"], row["Final answer"])
                return
            counts.tool_calls += 1
            messages.append({"role": "user", "content": f"Result:\n{_call(step)}"})
        counts.unanswered += 1


def _call(step: dict[str, Any]) -> str:
    try:
        return str(TOOLS[step["tool"]](**step["arguments"]))
    except Exception as error:  # noqa: BLE001  the model sees it
        return f"error: {type(error).__name__}: {error}"


def _ask(url: str, messages: list[dict[str, str]], counts: Counts) -> str:
    body = json.dumps({"messages": messages, "temperature": 0, "max_tokens": MAX_TOKENS}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        found = json.load(reply)
    used = found["usage"]
    counts.requests += 1
    counts.tokens_in += used["prompt_tokens"]
    counts.tokens_cached += (used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    counts.tokens_out += used["completion_tokens"]
    return found["choices"][0]["message"]["content"] or ""


def main(model: str, n_questions: str = str(QUESTIONS)) -> None:
    url = model if "://" in model else start_server(Path(model), SLOTS, CONTEXT_TOKENS)
    print(real_agent(url, int(n_questions)).markdown())


if __name__ == "__main__":
    main(*sys.argv[1:])
