"use strict";
// A live page: it asks for its parts once a second.
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

  async function follow() {
    try {
      const answer = await fetch(`/runs/${encodeURIComponent(data.id)}/state`);
      const state = await answer.json();
      if (state.error) { say(state.error); return; }
      show(state.html);
      document.title = state.title;
      if (state.ended) return;
    } catch {
      say("No connection to the viewer; it is tried again.");
    }
    setTimeout(follow, 1000);
  }
  follow();
})();
