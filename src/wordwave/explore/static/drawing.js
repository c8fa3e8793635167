// What all charts share: a drawing area as wide as its place, axes, arrows, labels.

import { shape } from "./format.js";

const widths = new WeakMap();
let watcher = null;

/** The width of a node, kept until it changes: to ask the page for it in each frame takes a layout. */
export function widthOf(node) {
  watcher ??= new ResizeObserver((entries) => entries.forEach(({ target }) => widths.set(target, target.clientWidth)));
  if (!widths.has(node)) {
    widths.set(node, node.clientWidth);
    watcher.observe(node);
  }
  return widths.get(node);
}

/** An empty SVG that fills the width of a node. */
export function area(node, height, label) {
  const width = Math.max(widthOf(node), 200);
  let svg = node.firstElementChild;
  if (!svg) {
    svg = shape("svg", { role: "img" });
    node.append(svg);
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", label);
  svg.replaceChildren();
  return { svg, width, height };
}

export const line = (x1, y1, x2, y2, kind) => shape("line", { x1, y1, x2, y2, class: kind });

export const dot = (x, y, r, kind) => shape("circle", { cx: x, cy: y, r, class: kind });

export function label(x, y, text, kind = "", anchor = "middle") {
  return shape("text", { x, y, class: `label ${kind}`, "text-anchor": anchor }, text);
}

/** A curve through points. */
export function curve(points, kind) {
  const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
  return shape("path", { d, class: kind });
}

/** An arrow with a slender head. */
export function arrow(x1, y1, x2, y2, kind, head = 9) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (length < 0.5) return dot(x2, y2, 2, `${kind} tip`);
  const size = Math.min(head, length * 0.5);
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const [bx, by] = [x2 - ux * size, y2 - uy * size];
  const side = size * 0.42;
  const points = [
    [x2, y2],
    [bx - uy * side, by + ux * side],
    [bx + uy * side, by - ux * side],
  ];
  return shape(
    "g",
    { class: `arrow ${kind}` },
    line(x1, y1, bx, by, "shaft"),
    shape("polygon", { points: points.map((p) => p.map((v) => v.toFixed(2)).join(",")).join(" "), class: "tip" }),
  );
}

/** Heights of labels, moved apart so that none covers another. */
export function apart(heights, gap, low, high) {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const found = [...heights];
  for (let k = 1; k < order.length; k++) {
    found[order[k]] = Math.max(found[order[k]], found[order[k - 1]] + gap);
  }
  let limit = high;
  for (let k = order.length - 1; k >= 0; k--) {
    found[order[k]] = Math.min(found[order[k]], limit);
    limit = found[order[k]] - gap;
  }
  return found.map((y) => Math.max(y, low));
}

const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

/** The first of some boxes [left, top, right, bottom] that covers none of those taken, or null. */
export const firstFree = (boxes, taken) => boxes.find((box) => taken.every((other) => !overlap(box, other))) ?? null;

/** Small boxes along a segment, which no label should cover. */
export function along([x1, y1], [x2, y2], reach = 2) {
  const n = Math.ceil(Math.hypot(x2 - x1, y2 - y1) / 6) + 1;
  return Array.from({ length: n + 1 }, (_, k) => {
    const [x, y] = [x1 + ((x2 - x1) * k) / n, y1 + ((y2 - y1) * k) / n];
    return [x - reach, y - reach, x + reach, y + reach];
  });
}

/** Whether the number of a place has room on an axis of so many pixels: every one, or every 5th, 10th, … */
export function hasRoom(place, n, pixels) {
  const least = 8 * String(n).length + 6;
  const step = [1, 5, 10, 20, 50].find((k) => (k * pixels) / n >= least) ?? 100;
  return place === 1 || place % step === 0;
}

/** Round numbers that divide a range into a few steps. */
export function ticks(low, high, most = 5) {
  const rough = (high - low) / most;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step / 1e6; x += step) found.push(x);
  return found;
}
