"use strict";
// Differences of two texts, word by word: `Words.compare(old, new)` are two lists of nodes, with <del> and <ins>.
const Words = (() => {
  const MOST = 1500; // words of a text between its equal beginning and end; longer ones differ as a whole

  const split = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

  // Pieces [kind, text]: kind 0 is in both, -1 in the old text only, 1 in the new one only.
  function align(before, after) {
    const [a, b] = [split(before), split(after)];
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
    let end = 0;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
    const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
    const pieces = [[0, a.slice(0, start).join("")]];
    if (left.length > MOST || right.length > MOST) {
      pieces.push([-1, left.join("")], [1, right.join("")]);
    } else {
      const width = right.length + 1;
      const best = new Uint16Array((left.length + 1) * width);
      for (let i = left.length - 1; i >= 0; i -= 1) {
        for (let j = right.length - 1; j >= 0; j -= 1) {
          best[i * width + j] = left[i] === right[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
        }
      }
      let [i, j] = [0, 0];
      while (i < left.length || j < right.length) {
        if (i < left.length && j < right.length && left[i] === right[j]) pieces.push([0, left[i]]), (i += 1), (j += 1);
        else if (i < left.length && (j === right.length || best[(i + 1) * width + j] >= best[i * width + j + 1])) pieces.push([-1, left[i]]), (i += 1);
        else pieces.push([1, right[j]]), (j += 1);
      }
    }
    pieces.push([0, a.slice(a.length - end).join("")]);
    return pieces.filter(([, text]) => text);
  }

  function side(pieces, kind, tag) {
    const nodes = [];
    for (const [each, text] of pieces) {
      if (each !== 0 && each !== kind) continue;
      const last = nodes.at(-1);
      const marked = each === kind;
      if (last && (last.nodeType === Node.ELEMENT_NODE) === marked) last.textContent += text;
      else if (marked) {
        const element = document.createElement(tag);
        element.textContent = text;
        nodes.push(element);
      } else nodes.push(document.createTextNode(text));
    }
    return nodes;
  }

  function compare(before, after) {
    const pieces = align(before, after);
    return [side(pieces, -1, "del"), side(pieces, 1, "ins")];
  }

  return { align, compare };
})();
