"use strict";
// A live tuning run: the newest state arrives as server-sent events; the page asks for nothing else.
(() => {
  const { data, make, row, percent, usd, duration } = Page;
  const byId = (id) => document.getElementById(id);
  const NAMES = { sealed: "sealed test" };
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const share = (value) => (value === null ? "–" : percent(value));
  const bounds = (interval) => (interval ? `${percent(interval[0])} to ${percent(interval[1])}` : "");

  const tile = (name, value, remark = "") => {
    const box = make("div", "tile", make("span", "", name), make("strong", "", value));
    if (remark) box.append(make("span", "", remark));
    return box;
  };

  function drawPhases(state) {
    byId("phases").replaceChildren(...state.phases.map((each) => {
      const item = make("li", each.mark, make("b", "", NAMES[each.name] || each.name), " ");
      const spent = each.requests ? `, ${count(each.requests, "request")}` : "";
      item.append(make("span", "small", `${each.mark === "next" ? "not begun" : each.mark === "now" ? "under way" : "done"}${spent}`));
      if (each.mark === "now") item.setAttribute("aria-current", "step");
      return item;
    }));
  }

  function drawTiles(state) {
    const answers = state.metric_calls ?? 0;
    const allowed = state.budget_metric_calls;
    const cost = state.cost_usd ?? 0;
    const ended = state.state === "ended";
    const left = ended ? "ended" : state.eta_seconds === null ? (state.sealed?.eta_seconds ?? null) === null ? "too early to say" : `at most ${duration(state.sealed.eta_seconds)}` : `at most ${duration(state.eta_seconds)}`;
    const budget = state.budget_usd === null ? "" : `budget ${usd(state.budget_usd)}`;
    const projected = state.projected_cost_usd === null ? budget : `at most ${usd(state.projected_cost_usd)} in all${budget && `, ${budget}`}`;
    byId("tiles").replaceChildren(
      tile("answers of the search", allowed === null ? String(answers) : `${answers} of ${allowed}`, count(state.requests ?? 0, "request")),
      tile("starting prompts on validation", share(state.baseline), state.baseline_ci95 ? `95% interval ${bounds(state.baseline_ci95)}` : ""),
      tile("best candidate on validation", share(state.best), state.best === null ? "" : "the best of many: too high"),
      tile("time left", left, `${duration(state.elapsed_seconds)} so far`),
      tile("cost", `${state.is_cost_known ? "" : "at least "}${usd(cost)}`, projected),
    );
  }

  function drawSealed(state) {
    byId("sealed").hidden = !state.sealed;
    if (!state.sealed) return;
    const { done, total } = state.sealed;
    const bar = byId("bar");
    const part = make("i", "fill even");
    part.style.width = `${(100 * done) / Math.max(total, 1)}%`;
    bar.setAttribute("aria-valuenow", String(Math.round((100 * done) / Math.max(total, 1))));
    bar.replaceChildren(part);
    byId("sealed-line").textContent = `${done} of at most ${count(total, "answer")} of both sides.`;
  }

  function drawShortlist(state) {
    byId("shortlist").hidden = !state.shortlist.length;
    byId("shortlisted").replaceChildren(...state.shortlist.map((each) => row(
      ["candidate", each.id, "said"],
      ["in the search", share(each.val_score), "number"],
      ["new answers", share(each.fresh_score), "number"],
      ["95% interval", bounds(each.fresh_ci95), "number"])));
  }

  function drawCandidates(state) {
    const rows = state.candidates.map((each) => {
      const few = each.after === null ? "–" : `${share(each.before)} → ${share(each.after)} (few questions)`;
      const from = each.parents.length ? ` from ${each.parents.join(" and ")}` : "";
      return row(
        ["candidate", each.id, "said"],
        ["decision", each.decision.replace("_", " "), `decision ${each.decision === "accepted" ? "accepted" : ""}`],
        ["changes", `${each.agents.join(", ") || "no agent"}${each.origin && ` by ${each.origin}`}${from}`, "said wide"],
        ["validation", each.val_score === null ? few : percent(each.val_score), "number"],
        ["why", each.reason, "said small wide"]);
    });
    byId("candidates-title").textContent = `Candidates: ${state.n_candidates}, of which ${state.n_accepted} accepted`;
    byId("candidates").replaceChildren(...rows);
  }

  function describe(state) {
    if (state.verdict) return `Verdict: ${state.verdict}; reload the page for its report.`;
    if (state.state === "running") return "The tuning run goes on; this page follows it.";
    return state.stopped ? `The tuning run stopped: ${state.stopped}` : "The tuning run has ended without a verdict.";
  }

  function show(state) {
    for (const draw of [drawPhases, drawTiles, drawSealed, drawShortlist, drawCandidates]) draw(state);
    byId("status").textContent = describe(state);
    document.title = `${NAMES[state.phase] || state.phase} · ${data.run}`;
    return state.state === "ended";
  }

  const events = new EventSource(Page.at(data.id, "events"));
  events.addEventListener("state", (event) => { if (show(JSON.parse(event.data))) events.close(); });
  events.addEventListener("failed", (event) => {
    byId("status").textContent = JSON.parse(event.data).error;
    events.close();
  });
  events.addEventListener("error", () => { byId("status").textContent = "No connection to the viewer; it is tried again."; });
})();
