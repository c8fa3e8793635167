// The charts of a word and of its sentence.

import { counted, phasor, polar } from "./arithmetic.js";
import { apart, area, arrow, curve, dot, label, line } from "./drawing.js";
import { clamp, element, percent, shape, shown, signed } from "./format.js";

const N_DIMENSIONS = 5;
const MOST_CLASSES = 8;
const MOST_NUMBERED = 8; // places on the complex plane
const LEAST_NAMED = 12; // pixels of an arrow of the chain

/** The dimensions of largest amplitude, the chosen one among them. */
export function largest(wave, chosen) {
  const order = Array.from(wave.amplitude, (r, d) => [Math.abs(r), d]).sort((a, b) => b[0] - a[0]);
  const found = order.slice(0, N_DIMENSIONS).map(([, d]) => d);
  if (chosen !== null && !found.includes(chosen)) found[found.length - 1] = chosen;
  return found;
}

/** Bars of probabilities; classes keep their order while words move. */
export class Bars {
  constructor(list) {
    this.list = list;
    this.key = "";
  }

  draw(labels, probabilities, previous = null) {
    const best = probabilities.indexOf(Math.max(...probabilities));
    let classes = labels.map((_, i) => i);
    if (labels.length > MOST_CLASSES) {
      const ranked = classes.sort((a, b) => probabilities[b] - probabilities[a]);
      classes = this.classes?.includes(best) && previous ? this.classes : ranked.slice(0, MOST_CLASSES);
    }
    const key = JSON.stringify(classes);
    if (key !== this.key) {
      this.key = key;
      this.classes = classes;
      this.list.replaceChildren(...classes.map((i) => this.bar(labels[i])));
    }
    classes.forEach((i, k) => {
      const item = this.list.children[k];
      item.classList.toggle("best", i === best);
      item.querySelector(".fill").style.transform = `scaleX(${probabilities[i]})`;
      item.querySelector(".figure").textContent = percent(probabilities[i]);
      item.dataset.probability = probabilities[i];
    });
    return best;
  }

  bar(name) {
    return element(
      "li",
      { class: "bar" },
      element("span", { class: "name", title: shown(name, 200) }, shown(name, 40)),
      element("span", { class: "figure" }),
      element("span", { class: "track" }, element("span", { class: "fill" })),
    );
  }
}

const drawnWaves = new WeakMap();

/** The dimensions of a word as curves over places, the present place marked. Only the marks move
 *  with the place: curves are drawn again when something else has changed. */
export function drawWaves(node, { wave, view, viewName, dimensions, chosen, place, length, edit, word }) {
  const key = JSON.stringify([wave.id, wave.amplitude[chosen], view, dimensions, chosen, length, edit, node.clientWidth]);
  const drawn = drawnWaves.get(node);
  if (drawn?.key === key) return drawn.mark(place);
  const { svg, width, height } = area(node, 250, `Waves of ${shown(word)} over ${length} places`);
  const [left, right, top, bottom] = [16, 44, 16, 30];
  const last = Math.max(length, 8);
  const x = (p) => left + ((p - 0.5) / last) * (width - left - right);
  const middle = (top + height - bottom) / 2;
  const at = (d, p) => phasor(wave, view, d, counted(viewName, p, length), edit);
  const most = Math.max(...dimensions.map((d) => Math.max(Math.hypot(...at(d, 1)), Math.abs(wave.amplitude[d]))), 1e-9);
  const y = (value) => middle - (value / most) * ((height - top - bottom) / 2 - 6);
  if (length < last) {
    const start = x(length + 0.5);
    svg.append(shape("rect", { x: start, y: top - 8, width: width - right - start, height: height - top - bottom + 16, class: "beyond" }));
  }
  svg.append(line(left, middle, width - right, middle, "axis"));
  const numbers = new Map();
  for (let p = 1; p <= last; p++) {
    svg.append(line(x(p), middle - 3, x(p), middle + 3, "axis"));
    if (last <= 20 || p === 1 || p % 5 === 0) numbers.set(p, label(x(p), height - 8, String(p)));
  }
  const here = line(0, top - 8, 0, height - bottom + 4, "here");
  svg.append(...numbers.values(), here);
  const sample = (d, part) => {
    const points = [];
    for (let u = x(0.5); u <= x(last + 0.5) + 0.01; u += 2) {
      points.push([u, y(at(d, 0.5 + ((u - left) / (width - left - right)) * last)[part])]);
    }
    return points;
  };
  const heights = apart(dimensions.map((d) => y(at(d, last + 0.5)[0])), 13, top, height - bottom);
  const dots = new Map();
  [...dimensions.keys()].reverse().forEach((k) => {
    const d = dimensions[k];
    const kind = d === chosen ? "chosen" : `other rank${Math.min(k, 4)}`;
    if (d === chosen) svg.append(curve(sample(d, 1), "wave chosen imaginary"));
    svg.append(curve(sample(d, 0), `wave ${kind}`));
    dots.set(d, dot(0, 0, d === chosen ? 5 : 3, `point ${kind}`));
    svg.append(label(width - right + 8, heights[k] + 4, String(d), d === chosen ? "accent" : "", "start"));
  });
  svg.append(...dots.values());
  const mark = (now) => {
    here.setAttribute("x1", x(now));
    here.setAttribute("x2", x(now));
    for (const [d, point] of dots) {
      point.setAttribute("cx", x(now));
      point.setAttribute("cy", y(at(d, now)[0]));
    }
    for (const [p, number] of numbers) number.classList.toggle("strong", p === Math.round(now));
  };
  drawnWaves.set(node, { key, mark });
  return mark(place);
}

/** The dimensions of a word as arrows on the complex plane, and the places the chosen one visits. */
export function drawPhasors(node, { wave, view, viewName, dimensions, chosen, place, length, edit, word }) {
  const { svg, width, height } = area(node, 250, `${shown(word)} at place ${Math.round(place)} on the complex plane`);
  const [cx, cy] = [width / 2, height / 2];
  const radius = Math.min(width, height) / 2 - 28;
  const at = (d, p) => phasor(wave, view, d, counted(viewName, p, length), edit);
  let most = 1e-9;
  for (const d of dimensions) for (const p of [1, place, length]) most = Math.max(most, Math.hypot(...at(d, p)));
  const scale = radius / most;
  const end = radius + 24;
  svg.append(line(cx - end, cy, cx + end, cy, "axis"), line(cx, cy - end, cx, cy + end, "axis"));
  svg.append(label(cx + end + 4, cy + 4, "Re", "", "start"), label(cx + 6, cy - end + 8, "Im", "", "start"));
  const [size] = polar(wave, view, chosen, counted(viewName, place, length), edit);
  svg.append(shape("circle", { cx, cy, r: Math.abs(size) * scale, class: "orbit" }));
  if (length <= 40) {
    for (let p = 1; p <= length; p++) {
      const [re, im] = at(chosen, p);
      svg.append(dot(cx + re * scale, cy - im * scale, 2.5, "visited"));
      const out = 1 + 13 / Math.max(Math.hypot(re, im) * scale, 13); // beyond the orbit
      if (length <= MOST_NUMBERED) svg.append(label(cx + re * scale * out, cy - im * scale * out + 4, String(p)));
    }
  }
  [...dimensions.keys()].reverse().forEach((k) => {
    const d = dimensions[k];
    const [re, im] = at(d, place);
    svg.append(arrow(cx, cy, cx + re * scale, cy - im * scale, d === chosen ? "chosen" : `other rank${Math.min(k, 4)}`));
  });
}

/** The phasors of all words, one after the other: a chain that ends in the sentence's value. */
export function drawChain(node, { waves, words, view, viewName, chosen, selected, edits, pooling }) {
  const length = waves.length;
  const points = [[0, 0]];
  waves.forEach((wave, i) => {
    const [re, im] = phasor(wave, view, chosen, counted(viewName, i + 1, length), edits.get(wave.id) ?? null);
    const share = { mean: length, sqrt: Math.sqrt(length) }[pooling] ?? 1;
    points.push([points[i][0] + re / share, points[i][1] + im / share]);
  });
  const [endRe, endIm] = points[length];
  const value = `${signed(endRe, 3).replace("+", "")} ${endIm < 0 ? "−" : "+"} ${Math.abs(endIm).toFixed(3)}i`;
  const { svg, width, height } = area(node, 320, `Sum of ${length} arrows in dimension ${chosen}: ${value}`);
  const pad = 44;
  const [lowX, highX, lowY, highY] = [0, 1].flatMap((k) => [Math.min(...points.map((p) => p[k])), Math.max(...points.map((p) => p[k]))]);
  const scale = Math.min((width - 2 * pad) / Math.max(highX - lowX, 1e-6), (height - 2 * pad) / Math.max(highY - lowY, 1e-6));
  const x = (v) => width / 2 + (v - (lowX + highX) / 2) * scale;
  const y = (v) => height / 2 - (v - (lowY + highY) / 2) * scale;
  svg.append(line(0, y(0), width, y(0), "axis faint"), line(x(0), 0, x(0), height, "axis faint"));
  svg.append(line(x(0), y(0), x(endRe), y(endIm), "resultant"));
  const labels = [];
  waves.forEach((_, i) => {
    const [[a, b], [c, d]] = [points[i], points[i + 1]];
    const isSelected = i === selected;
    svg.append(arrow(x(a), y(b), x(c), y(d), isSelected ? "chosen" : "other rank1", 8));
    const size = Math.hypot(x(c) - x(a), y(d) - y(b)) || 1;
    if ((length <= 14 && size > LEAST_NAMED) || isSelected) {
      const [mx, my] = [(x(a) + x(c)) / 2, (y(b) + y(d)) / 2];
      const [nx, ny] = [(y(d) - y(b)) / size, -(x(c) - x(a)) / size];
      const side = Math.abs(nx) > 0.5 ? (nx > 0 ? "start" : "end") : "middle";
      const text = shown(words[i], 12);
      const at = [clamp(mx + nx * 9, 24, width - 24), clamp(my + ny * 11 + 4, 12, height - 6)];
      if (isSelected || labels.every(([u, v]) => Math.abs(u - at[0]) > 26 || Math.abs(v - at[1]) > 11)) {
        labels.push(at);
        svg.append(label(at[0], at[1], text, isSelected ? "accent halo" : "halo", side));
      }
    }
  });
  svg.append(dot(x(0), y(0), 3.5, "origin"), dot(x(endRe), y(endIm), 5, "end"));
  const isUpward = endIm > points[length - 1][1]; // the value stands beyond the last arrow
  const above = y(endIm) > height - 40 || (isUpward && y(endIm) > 30);
  svg.append(label(clamp(x(endRe), 60, width - 60), y(endIm) + (above ? -14 : 22), value, "strong halo"));
}

/** The probability of each class against the place of the word. */
export function drawSweep(node, { probabilities, labels, place, predicted, word }) {
  const length = probabilities.length;
  const here = probabilities[place];
  const name = shown(word);
  const { svg, width, height } = area(node, 320, `${shown(labels[predicted])} is ${percent(here[predicted])} with ${name} at place ${place + 1} of ${length}`);
  const right = Math.min(112, width * 0.3);
  const [left, top, bottom] = [40, 18, 34];
  const x = (i) => (length === 1 ? (left + width - right) / 2 : left + (i / (length - 1)) * (width - left - right));
  const most = labels.map((_, c) => Math.max(...probabilities.map((row) => row[c])));
  const highest = [0.1, 0.2, 0.5, 1].find((p) => p >= Math.max(...most)) ?? 1;
  const y = (p) => top + (1 - p / highest) * (height - top - bottom);
  for (const p of [0, highest / 2, highest]) {
    svg.append(line(left, y(p), width - right, y(p), p ? "axis faint" : "axis"));
    svg.append(label(left - 8, y(p) + 4, `${100 * p}%`, "", "end"));
  }
  for (let i = 0; i < length; i++) {
    if (length <= 16 || i === 0 || (i + 1) % 5 === 0) svg.append(label(x(i), height - 12, String(i + 1), i === place ? "strong" : ""));
  }
  svg.append(line(x(place), top - 6, x(place), height - bottom, "here"));
  const classes = labels.map((_, c) => c).sort((a, b) => most[b] - most[a]).slice(0, 4);
  if (!classes.includes(predicted)) classes[classes.length - 1] = predicted;
  const shownClasses = classes.filter((c) => c === predicted || most[c] > 0.02);
  const heights = apart(shownClasses.map((c) => y(probabilities[length - 1][c])), 15, top, height - bottom);
  const points = (c) => probabilities.map((row, i) => [x(i), y(row[c])]);
  const filled = [[x(0), y(0)], ...points(predicted), [x(length - 1), y(0)]];
  svg.append(curve(filled, "fill"));
  [...shownClasses.keys()].reverse().forEach((k) => {
    const c = shownClasses[k];
    const kind = c === predicted ? "chosen" : "other rank1";
    svg.append(curve(points(c), `wave ${kind}`));
    if (length <= 40) for (const [px, py] of points(c)) svg.append(dot(px, py, c === predicted ? 2.5 : 1.8, `station ${kind}`));
    svg.append(dot(x(place), y(here[c]), c === predicted ? 5 : 3, `point ${kind}`));
    svg.append(label(width - right + 10, heights[k] + 4, shown(labels[c], 15), c === predicted ? "accent" : "", "start"));
  });
}
