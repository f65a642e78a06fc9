"use strict";
// Differences of two texts, word by word: `Words.compare(old, new)` are two lists of nodes, with <del> and <ins>.
const Words = (() => {
  const MOST = 1500; // words of a text between its equal beginning and end; longer ones differ as a whole

  const split = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

  // Rows of two lists, equal ones next to each other: [a, b], [a, undefined] or [undefined, b], in the order of both.
  function align(first, second, same) {
    const width = second.length + 1;
    const best = new Uint16Array((first.length + 1) * width);
    for (let i = first.length - 1; i >= 0; i -= 1) {
      for (let j = second.length - 1; j >= 0; j -= 1) {
        best[i * width + j] = same(first[i], second[j]) ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
      }
    }
    const rows = [];
    let [i, j] = [0, 0];
    while (i < first.length || j < second.length) {
      if (i < first.length && j < second.length && same(first[i], second[j])) rows.push([first[i++], second[j++]]);
      else if (i < first.length && (j === second.length || best[(i + 1) * width + j] >= best[i * width + j + 1])) rows.push([first[i++], undefined]);
      else rows.push([undefined, second[j++]]);
    }
    return rows;
  }

  // Pieces [kind, text]: kind 0 is in both, -1 in the old text only, 1 in the new one only.
  function divide(before, after) {
    const [a, b] = [split(before), split(after)];
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
    let end = 0;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
    const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
    const middle = left.length > MOST || right.length > MOST
      ? [[-1, left.join("")], [1, right.join("")]]
      : align(left, right, (x, y) => x === y).map(([x, y]) => (y === undefined ? [-1, x] : x === undefined ? [1, y] : [0, x]));
    return [[0, a.slice(0, start).join("")], ...middle, [0, a.slice(a.length - end).join("")]].filter(([, text]) => text);
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
    const pieces = divide(before, after);
    return [side(pieces, -1, "del"), side(pieces, 1, "ins")];
  }

  return { align, compare };
})();
