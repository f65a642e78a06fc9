"use strict";
// A live page: the server sends its parts whenever the run has gone on; the page asks for nothing else.
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  if (!data.live) return;
  const say = (text) => { document.getElementById("status").textContent = text; };

  // Parts that have changed are replaced; focus and scrolling of the others stay as they are.
  function show(html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    for (const part of [...fresh.content.children]) {
      const shown = document.getElementById(part.id);
      if (!shown) document.getElementById("live").append(part);
      else if (shown.innerHTML !== part.innerHTML) shown.replaceChildren(...part.childNodes);
    }
  }

  const events = new EventSource(`/runs/${encodeURIComponent(data.id)}/events`);
  events.addEventListener("state", (event) => {
    const state = JSON.parse(event.data);
    show(state.html);
    document.title = state.title;
    if (state.ended) events.close();
  });
  events.addEventListener("failed", (event) => {
    say(JSON.parse(event.data).error);
    events.close();
  });
  events.addEventListener("error", () => say("No connection to the viewer; it is tried again."));
})();
