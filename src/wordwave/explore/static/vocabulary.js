// The vocabulary: words by sensitivity and amplitude, with search and nearest words.

import { firstFree, ticks } from "./drawing.js";
import { element, shown } from "./format.js";

const MOST_FOUND = 24;
const N_EXTREMES = 24; // words of largest amplitude and of largest δ that are named, where there is room
const HEIGHT = 520;
const number = (x) => Number(x.toPrecision(3)).toString();

export class VocabularyView {
  /** parts: canvas, search, found, nearest, title; onAdd(text) appends a word to the sentence. */
  constructor(parts, backend) {
    Object.assign(this, parts, { backend });
    this.inSentence = new Set();
    this.hits = [];
    this.chosen = null;
    this.hovered = null;
    this.search.addEventListener("input", () => this.find());
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.hover(null));
    this.canvas.addEventListener("click", () => this.hovered !== null && this.choose(this.hovered));
  }

  async load() {
    this.data = await this.backend.vocabulary();
    const { delta, amplitude, words } = this.data;
    this.across = delta ?? amplitude.map((_, i) => i);
    this.byText = new Map(words.map((word, i) => [word, i]));
    this.lower = words.map((word) => word.toLowerCase());
    const highest = (values, n) => [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, n);
    this.extremes = [...highest(amplitude, N_EXTREMES), ...highest(delta ?? [], N_EXTREMES)];
    this.find();
  }

  mark(ids) {
    this.inSentence = new Set(ids);
    this.draw();
  }

  find() {
    if (!this.data) return;
    const wanted = this.search.value.trim().toLowerCase();
    this.hits = [];
    if (wanted) {
      const begins = [];
      const holds = [];
      this.lower.forEach((word, i) => {
        if (word.startsWith(wanted)) begins.push(i);
        else if (holds.length < MOST_FOUND && word.includes(wanted)) holds.push(i);
      });
      begins.sort((a, b) => this.lower[a].length - this.lower[b].length || a - b);
      this.hits = [...begins, ...holds].slice(0, MOST_FOUND);
    }
    const chips = this.hits.map((i) => {
      const chip = element("button", { type: "button", class: "chip" }, shown(this.data.words[i]));
      chip.addEventListener("click", () => this.choose(i));
      return chip;
    });
    const none = element("p", { class: "note" }, "No word of the vocabulary has these letters.");
    this.found.replaceChildren(...(wanted && !chips.length ? [none] : chips));
    this.draw();
  }

  /** Show the words nearest to one. */
  async choose(i) {
    this.chosen = i;
    const word = shown(this.data.words[i]);
    this.draw();
    const found = await this.backend.nearest(i + this.data.first);
    if (this.chosen !== i) return;
    this.title.textContent = `Nearest to “${word}” by ${this.data.delta ? "amplitude" : "vector"}`;
    this.nearest.replaceChildren(
      ...found.map(({ id, text, cosine }) => {
        const button = element("button", { type: "button", class: "chip" }, shown(text));
        const at = id - this.data.first;
        if (at < this.data.words.length) button.addEventListener("click", () => this.choose(at));
        return element("li", {}, button, element("span", { class: "figure" }, cosine.toFixed(2)));
      }),
    );
  }

  hover(event) {
    let best = null;
    if (event && this.spots) {
      const box = this.canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      let least = 14 ** 2;
      this.spots.forEach(([px, py], i) => {
        const far = (px - x) ** 2 + (py - y) ** 2;
        if (far < least) [least, best] = [far, i];
      });
    }
    if (best !== this.hovered) {
      this.hovered = best;
      this.canvas.style.cursor = best === null ? "" : "pointer";
      this.draw();
    }
  }

  draw() {
    const { canvas, data } = this;
    if (!data || !data.words.length) return;
    const width = canvas.parentElement.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = HEIGHT * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${HEIGHT}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [left, right, top, bottom] = [46, 16, 16, 44];
    const range = (values) => {
      let [low, high] = [Infinity, -Infinity];
      for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
      const room = (high - low || Math.abs(high) || 1) * 0.04;
      return [low - room, high + room];
    };
    const [x0, x1] = range(this.across);
    const [y0, y1] = range(data.amplitude);
    const x = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right);
    const y = (v) => HEIGHT - bottom - ((v - y0) / (y1 - y0)) * (HEIGHT - top - bottom);
    pen.font = `12px ${style.fontFamily}`;
    pen.fillStyle = colour("--soft");
    pen.strokeStyle = colour("--line");
    pen.textAlign = "center";
    for (const v of ticks(x0, x1, width > 500 ? 6 : 4)) pen.fillText(number(v), x(v), HEIGHT - bottom + 18);
    pen.fillText(data.delta ? "δ, mean |frequency|: sensitivity to position" : "words, frequent ones first", (left + width - right) / 2, HEIGHT - 6);
    pen.textAlign = "right";
    for (const v of ticks(y0, y1)) {
      pen.fillText(number(v), left - 8, y(v) + 4);
      pen.beginPath();
      pen.moveTo(left, y(v));
      pen.lineTo(width - right, y(v));
      pen.stroke();
    }
    pen.save();
    pen.translate(11, (HEIGHT - bottom + top) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(data.delta ? "mean |amplitude|" : "mean |component|", 0, 0);
    pen.restore();
    this.spots = this.across.map((v, i) => [x(v), y(data.amplitude[i])]);
    const many = this.spots.length;
    pen.fillStyle = colour("--soft");
    pen.globalAlpha = Math.min(0.75, Math.max(0.25, 60 / Math.sqrt(many) / 8));
    const radius = many > 300 ? 2 : 3;
    for (const [px, py] of this.spots) {
      if (many > 3000) {
        pen.fillRect(px - 1.4, py - 1.4, 2.8, 2.8); // ten times as fast, and too small to tell
        continue;
      }
      pen.beginPath();
      pen.arc(px, py, radius, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    const marked = new Set([...this.inSentence].map((id) => id - data.first).filter((i) => i >= 0 && i < many));
    const named = [...new Set([...marked, ...this.hits.slice(0, 12), this.chosen, this.hovered])].filter((i) => i !== null);
    const dots = [];
    const labels = [];
    named.push(...(many <= 80 ? this.spots.keys() : this.extremes));
    const isMarked = (i) => marked.has(i) || i === this.hovered || i === this.chosen || this.hits.includes(i);
    for (const i of new Set(named)) {
      const [px, py] = this.spots[i];
      const size = isMarked(i) ? 4.5 : 2.5;
      pen.fillStyle = colour(isMarked(i) ? "--accent" : "--soft");
      pen.beginPath();
      pen.arc(px, py, size, 0, 7);
      pen.fill();
      dots.push({ box: [px - size, py - size, px + size, py + size], isMarked: isMarked(i) });
    }
    for (const i of new Set(named)) {
      const [px, py] = this.spots[i];
      const text = shown(data.words[i], 20);
      const wide = pen.measureText(text).width;
      const boxes = [
        [px + 9, py - 8],
        [px - 9 - wide, py - 8],
        [px - wide / 2, py - 21],
        [px - wide / 2, py + 6],
      ].map(([u, v]) => [u, v, u + wide, v + 15]);
      const inside = boxes.filter((box) => box[0] > left && box[2] < width - 2 && box[1] > 0 && box[3] < HEIGHT - bottom);
      // A word of the sentence or of the search may cover the dots of others, the one in hand anything.
      const rivals = dots.filter((spot) => spot.isMarked).map((spot) => spot.box);
      let box = firstFree(inside, [...dots.map((spot) => spot.box), ...labels]);
      if (isMarked(i)) box ??= firstFree(inside, [...rivals, ...labels]);
      if (i === this.hovered || i === this.chosen) box ??= inside[0] ?? boxes[0];
      if (!box) continue;
      labels.push(box);
      pen.textAlign = "left";
      pen.lineWidth = 4;
      pen.strokeStyle = colour("--card");
      pen.strokeText(text, box[0], box[1] + 12);
      pen.lineWidth = 1;
      pen.fillStyle = colour(isMarked(i) ? "--accent" : "--soft");
      pen.fillText(text, box[0], box[1] + 12);
    }
  }
}
