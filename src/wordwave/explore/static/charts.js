// The charts of a word and of its sentence.

import { counted, phasor, polar } from "./arithmetic.js";
import { along, apart, area, arrow, curve, dot, firstFree, hasRoom, label, line, widthOf } from "./drawing.js";
import { clamp, element, percent, shape, shown, signed } from "./format.js";

const N_DIMENSIONS = 5;
const MOST_CLASSES = 8;
const MOST_NUMBERED = 8; // places on the complex plane
const MOST_NAMED = 14; // arrows of the chain, and the fewest pixels of one that is named
const LEAST_NAMED = 12;
const CROWD = 60; // arrows of the chain that are drawn thinner
const LETTER_WIDTH = 7.5; // pixels of a letter, about
const LEAST_TURN = 0.1; // radians from one place to the next, of a dimension that is chosen to be seen turning

/** The dimensions of largest amplitude, the chosen one among them. */
export function largest(wave, chosen) {
  const order = Array.from(wave.amplitude, (r, d) => [Math.abs(r), d]).sort((a, b) => b[0] - a[0]);
  const found = order.slice(0, N_DIMENSIONS).map(([, d]) => d);
  if (chosen !== null && !found.includes(chosen)) found[found.length - 1] = chosen;
  return found;
}

/** The dimension to begin with: of those of largest amplitude the first one that is seen to turn. */
export function firstTurning(wave, view) {
  const found = largest(wave, null);
  return found.find((d) => Math.abs(wave.frequencies[view][d]) >= LEAST_TURN) ?? found[0];
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
  const key = JSON.stringify([wave.id, wave.amplitude[chosen], view, dimensions, chosen, length, edit, widthOf(node)]);
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
    if (hasRoom(p, last, width - left - right)) numbers.set(p, label(x(p), height - 8, String(p)));
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
  const numbers = []; // a place whose number would cover another one has none, the present one first
  if (length <= 40) {
    const order = [...Array(length).keys()].map((i) => i + 1).sort((a, b) => (b === Math.round(place)) - (a === Math.round(place)));
    for (const p of order) {
      const [re, im] = at(chosen, p);
      svg.append(dot(cx + re * scale, cy - im * scale, 2.5, "visited"));
      const out = 1 + 13 / Math.max(Math.hypot(re, im) * scale, 13); // beyond the orbit
      const [u, v] = [cx + re * scale * out, cy - im * scale * out];
      const box = firstFree([[u - 5, v - 7, u + 5, v + 7]], numbers);
      if (length > MOST_NUMBERED || !box) continue;
      numbers.push(box);
      svg.append(label(u, v + 4, String(p)));
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
  svg.classList.toggle("crowded", length > CROWD);
  const drawn = points.map(([re, im]) => [x(re), y(im)]);
  const [start, end] = [drawn[0], drawn[length]];
  const taken = [dotBox(start), dotBox(end), ...along(start, end), ...drawn.slice(1).flatMap((to, i) => along(drawn[i], to))];
  for (let i = 0; i < length; i++) svg.append(arrow(...drawn[i], ...drawn[i + 1], i === selected ? "chosen" : "other rank1", length > CROWD ? 4 : 8));
  /** Write a text at the first of some centres where it covers nothing, or at the first one if it must be seen. */
  const write = (text, centres, kind, isNeeded) => {
    const half = (text.length * LETTER_WIDTH) / 2 + 2;
    const boxes = centres.map(([u, v]) => {
      const [cx, cy] = [clamp(u, half, width - half), clamp(v, 10, height - 10)];
      return [cx - half, cy - 8, cx + half, cy + 8];
    });
    const box = firstFree(boxes, taken) ?? (isNeeded ? boxes[0] : null);
    if (!box) return;
    taken.push(box);
    svg.append(label((box[0] + box[2]) / 2, box[1] + 12, text, `${kind} halo`));
  };
  const beside = ([u, v], text, gap) => {
    const far = (text.length * LETTER_WIDTH) / 2 + gap;
    return [[u, v + gap + 8], [u, v - gap - 8], [u + far, v], [u - far, v], [u + far, v + gap], [u - far, v + gap], [u + far, v - gap], [u - far, v - gap]];
  };
  write(value, beside(end, value, 9), "strong", true);
  const byName = (i) => {
    const [[a, b], [c, d]] = [drawn[i], drawn[i + 1]];
    const size = Math.hypot(c - a, d - b) || 1;
    if (i !== selected && (length > MOST_NAMED || size < LEAST_NAMED)) return;
    const text = shown(words[i], 12);
    const half = (text.length * LETTER_WIDTH) / 2;
    const [nx, ny] = [(d - b) / size, (a - c) / size];
    const reach = 12 + Math.abs(nx) * half + 3 * Math.abs(ny);
    const centres = [0.5, 0.3, 0.7].flatMap((t) => [1, -1].map((side) => [a + (c - a) * t + side * nx * reach, b + (d - b) * t + side * ny * reach]));
    write(text, centres, i === selected ? "accent" : "", i === selected);
  };
  byName(selected);
  for (let i = 0; i < length; i++) if (i !== selected) byName(i);
  svg.append(dot(...start, 3.5, "origin"), dot(...end, 5, "end"));
}

const dotBox = ([x, y]) => [x - 6, y - 6, x + 6, y + 6];

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
    if (hasRoom(i + 1, length, width - left - right)) svg.append(label(x(i), height - 12, String(i + 1), i === place ? "strong" : ""));
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
