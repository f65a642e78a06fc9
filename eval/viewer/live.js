"use strict";
// A live run: the newest state arrives as server-sent events; the page asks for nothing else.
(() => {
  const { data, make, row, percent, usd, duration } = Page;
  const byId = (id) => document.getElementById(id);
  if (!data.live) return;

  const tile = (name, value, remark = "") => {
    const box = make("div", "tile", make("span", "", name), make("strong", "", value));
    if (remark) box.append(make("span", "", remark));
    return box;
  };

  function drawTiles(state) {
    const interval = state.interval ? `95% interval ${percent(state.interval[0])} to ${percent(state.interval[1])}` : "";
    const cost = (state.is_cost_known ? "" : "at least ") + usd(state.cost_usd);
    const projected = state.projected_cost_usd === null ? "" : `about ${usd(state.projected_cost_usd)} in all`;
    const left = state.state === "ended" ? "ended" : state.eta_seconds === null ? "too early to say" : `about ${duration(state.eta_seconds)}`;
    byId("tiles").replaceChildren(
      tile("answers", `${state.done} of ${state.total}`, state.total ? percent(state.done / state.total) : ""),
      tile("right so far", state.scored ? percent(state.share) : "–", interval),
      tile("right, wrong, in error", `${state.correct} · ${state.wrong} · ${state.errors}`, state.scored < state.done ? `${state.done - state.scored} without a target` : ""),
      tile("time left", left, `${duration(state.elapsed_seconds)} so far`),
      tile("cost", cost, projected),
    );
  }

  function drawBar(state) {
    const bar = byId("bar");
    const total = Math.max(state.total, 1);
    bar.setAttribute("aria-valuenow", String(Math.round((100 * state.done) / total)));
    bar.replaceChildren(...[["right", state.correct], ["wrong", state.wrong], ["error", state.errors]].map(([kind, n]) => {
      const part = make("i", `fill ${kind}`);
      part.style.width = `${(100 * n) / total}%`;
      return part;
    }));
  }

  function drawRunning(state) {
    const boxes = state.running.map((each) => {
      const head = make("div", "", make("b", "said", each.question || each.id), " ");
      const epoch = each.epoch > 1 ? ` · epoch ${each.epoch}` : "";
      head.append(make("span", "small", `${each.agent || "starting"} · ${duration(each.seconds)}${epoch}`));
      const steps = make("ol", "passing", ...each.steps.map((step) => make("li", "said small", step)));
      return make("div", "sample", head, steps);
    });
    byId("running-title").textContent = `Under way: ${state.n_running}`;
    byId("running").replaceChildren(...(boxes.length ? boxes : [make("p", "quiet", state.state === "ended" ? "The run has ended." : "No answer is under way, or the log does not say.")]));
  }

  function drawRecent(state) {
    const rows = state.recent.map((each) => row(
      ["verdict", RowTables.mark(each.mark)],
      ["question", each.question, "said wide"],
      ["answer", each.answer, "said"],
      ["gold", each.target, "said"],
      ["time", `${each.seconds} s`, "number"]));
    byId("recent").replaceChildren(...rows);
  }

  function show(state) {
    drawTiles(state);
    drawBar(state);
    drawRunning(state);
    drawRecent(state);
    const ended = state.state === "ended";
    byId("status").textContent = ended ? (state.stopped ? `The run stopped: ${state.stopped}` : "The run has ended; reload the page for its report.") : "The run goes on; this page follows it.";
    document.title = `${state.done}/${state.total} ${data.run}`;
    return ended;
  }

  const events = new EventSource(Page.at(data.id, "events"));
  events.addEventListener("state", (event) => { if (show(JSON.parse(event.data))) events.close(); });
  events.addEventListener("failed", (event) => {
    byId("status").textContent = JSON.parse(event.data).error;
    events.close();
  });
  events.addEventListener("error", () => { byId("status").textContent = "No connection to the viewer; it is tried again."; });
})();
