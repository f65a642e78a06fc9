"use strict";
// Draws the charts of a page from their data blocks (page.py) with Observable Plot. Colours are CSS variables, so that
// they follow the theme; a change of width draws again. Texts reach the page as text: Plot sets no HTML.
(() => {
  const TONES = new Set(["wrong", "error", "accent"]);
  const N_SERIES = 6;
  const ROW = 26;

  const number = (value) => (Number.isInteger(value) ? d3.format(",")(value) : d3.format(",.3~g")(value));
  const FORMATS = {
    number,
    percent: (value) => `${d3.format(".1~f")(100 * value)}%`,
    seconds: (value) => `${d3.format(Math.abs(value) < 1 ? ".2~r" : ",.1f")(value)} s`,
  };

  const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(most - 1, 1))}…`);
  const unique = (values) => [...new Set(values)];

  function prepare(data) {
    const groups = unique(data.points.map((each) => each.group || ""));
    const color = (each) =>
      TONES.has(each.tone) ? `var(--${each.tone})` : `var(--series-${1 + (groups.indexOf(each.group || "") % N_SERIES)})`;
    const x = FORMATS[data.x_format] || number;
    const tip = (each) =>
      [
        each.group ? `${each.label} · ${each.group}` : each.label,
        `${data.x_label || "value"}: ${x(each.x)}`,
        each.low != null ? `95% interval: ${x(each.low)} to ${x(each.high)}` : "",
        each.note || "",
      ].filter(Boolean).map((line) => cut(line, 120)).join("\n");
    return { ...data, groups, color, x, tip };
  }

  // A row for each label, and in it one for each group.
  function drawRows(chart, width) {
    const labels = unique(chart.points.map((each) => each.label));
    const grouped = chart.groups.length > 1;
    const narrow = width < 520;
    const longest = Math.max(...labels.map((each) => each.length), 1);
    const left = narrow ? 8 : Math.min(longest * 7 + 14, width * 0.36);
    const right = Math.min(Math.max(...chart.points.map((each) => (each.note || "").length)) * 6.2 + 16, narrow ? 110 : width * 0.3);
    const text = (label) => cut(label, narrow ? Math.floor(width / 7.5) : Math.max(Math.floor(left / 7), 4));
    const inner = narrow ? ROW + 18 : ROW;
    const band = grouped ? { fy: "label", y: "group" } : { y: "label" };
    const options = { ...band, fill: chart.color, stroke: chart.color };
    const marks = [Plot.ruleX([chart.x_domain ? chart.x_domain[0] : 0], { stroke: "var(--line)" })];
    if (chart.kind === "bars") {
      marks.push(Plot.barX(chart.points, { ...options, stroke: null, x1: 0, x2: "x", insetTop: narrow ? 18 : 4, insetBottom: 4, rx: 2 }));
    }
    const bounded = chart.points.filter((each) => each.low != null);
    const dy = narrow ? 8 : 0;
    const ink = chart.kind === "bars" ? "var(--text)" : chart.color;
    marks.push(Plot.ruleY(bounded, { ...band, x1: "low", x2: "high", stroke: ink, strokeWidth: chart.kind === "bars" ? 1.2 : 3, strokeOpacity: chart.kind === "bars" ? 0.8 : 0.55, dy }));
    if (chart.kind === "dots") marks.push(Plot.dot(chart.points, { ...options, x: "x", r: 4.5, dy }));
    if (chart.x_mark != null) marks.push(Plot.ruleX([chart.x_mark], { stroke: "var(--quiet)", strokeDasharray: "3,3" }));
    marks.push(Plot.text(chart.points, { ...band, x: (each) => Math.max(each.x, each.high ?? each.x), text: (each) => each.note || "", textAnchor: "start", dx: 7, dy, fill: "var(--quiet)", fontSize: 11.5 }));
    if (narrow) {
      const first = grouped ? chart.points.filter((each) => each.group === chart.groups[0]) : chart.points;
      marks.push(Plot.text(first, { ...band, frameAnchor: "left", text: (each) => text(each.label), textAnchor: "start", dx: 0, dy: -10, fontSize: 12.5 }));
    }
    marks.push(Plot.tip(chart.points, Plot.pointerY({ ...band, x: "x", title: chart.tip, fill: "var(--card)", stroke: "var(--line)" })));
    const n = grouped ? unique(chart.points.map((each) => `${each.label}\n${each.group || ""}`)).length : labels.length;
    const scale = { label: null, tickSize: 0, tickFormat: text, axis: narrow ? null : grouped ? null : "left" };
    return Plot.plot({
      width,
      height: n * inner + 46 + (grouped ? labels.length * 8 : 0),
      marginLeft: left, marginRight: right, marginTop: 6, marginBottom: 40,
      x: { label: chart.x_label || null, labelAnchor: "center", labelArrow: "none", tickFormat: chart.x, ticks: Math.max(Math.min(Math.floor((width - left - right) / 70), 8), 2), grid: true, nice: !chart.x_domain, ...(chart.x_domain ? { domain: chart.x_domain } : { zero: chart.kind === "bars" }) },
      y: grouped ? { axis: null, domain: chart.groups } : { ...scale, domain: labels },
      ...(grouped ? { fy: { ...scale, axis: narrow ? null : "left", domain: labels, padding: 0.15 } } : {}),
      marks,
    });
  }

  function legend(chart) {
    const listed = chart.groups.filter(Boolean);
    if (listed.length < 2) return null;
    const box = document.createElement("div");
    box.className = "legend";
    for (const group of listed) {
      const [entry, swatch] = [document.createElement("span"), document.createElement("i")];
      swatch.style.background = chart.color(chart.points.find((each) => each.group === group));
      entry.append(swatch, group);
      box.append(entry);
    }
    return box;
  }

  function draw(figure) {
    const data = JSON.parse(figure.querySelector("script.data").textContent);
    const place = figure.querySelector(".drawing");
    const width = Math.floor(place.clientWidth);
    if (width < 60 || !data.points.length) return;
    const chart = prepare(data);
    const drawn = drawRows(chart, width);
    drawn.setAttribute("role", "img");
    drawn.setAttribute("aria-label", `${data.title}: ${chart.points.map((each) => chart.tip(each).replaceAll("\n", ", ")).join("; ")}`);
    for (const part of drawn.querySelectorAll("[aria-label]")) {
      part.setAttribute("class", part.getAttribute("aria-label")); // a group has no role that may be named
      part.removeAttribute("aria-label");
    }
    drawn.addEventListener("click", () => {
      const href = drawn.value?.href || "";
      if (href.startsWith("#") && typeof RowTables !== "undefined") RowTables.visit(href);
    });
    if (data.points.some((each) => each.href)) drawn.style.cursor = "pointer";
    place.replaceChildren(...[legend(chart), drawn].filter(Boolean));
  }

  const widths = new WeakMap();
  const observer = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      if (widths.get(target) === Math.floor(contentRect.width)) continue;
      widths.set(target, Math.floor(contentRect.width));
      draw(target.closest("figure"));
    }
  });
  for (const place of document.querySelectorAll("figure.chart .drawing")) observer.observe(place);
})();
