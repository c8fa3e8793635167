// The words as tiles, which are dragged by mouse or finger, or moved by keys.

import { element, shown, signed } from "./format.js";

const MANY = 14; // words, from which tiles are smaller
const CROWDED = 100; // words, from which they scroll
const THRESHOLD = 4; // pixels before a press becomes a drag
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export class Tiles {
  /** onMove(order) while a word moves, onSelect(index), onDrop(index, place) when it has moved. */
  constructor(list, { onMove, onSelect, onDrop }) {
    Object.assign(this, { list, onMove, onSelect, onDrop });
    this.items = [];
    this.lifted = null;
    list.addEventListener("keydown", (event) => this.key(event));
    list.addEventListener("pointerdown", (event) => this.press(event));
    list.addEventListener("focusout", () => setTimeout(() => {
      if (this.lifted && !list.contains(document.activeElement)) this.putDown();
    }, 0));
  }

  /** Other words. */
  show(words, order) {
    this.lifted = null;
    this.items = words.map((word, index) => {
      const button = element("button", { type: "button", class: "tile", "aria-describedby": "help" }, shown(word.text));
      if (!word.known) button.classList.add("unknown");
      button.title = word.known ? "" : "not in the vocabulary";
      const bar = (kind) => element("span", { class: `effect ${kind}` });
      const item = element("li", {}, button, element("span", { class: "effects", "aria-hidden": "true" }, bar("word"), bar("place")));
      item.dataset.index = index;
      return item;
    });
    this.list.classList.toggle("many", words.length > MANY);
    this.list.classList.toggle("crowded", words.length > CROWDED);
    this.list.replaceChildren(...order.map((i) => this.items[i]));
  }

  get order() {
    return Array.from(this.list.children, (item) => Number(item.dataset.index));
  }

  /** Another order of the same words: they glide to their places. */
  arrange(order) {
    if (order.join() === this.order.join()) return;
    this.glide(() => this.list.append(...order.map((i) => this.items[i])));
  }

  select(index) {
    this.items.forEach((item, i) => {
      const button = item.firstElementChild;
      button.tabIndex = i === index ? 0 : -1;
      button.setAttribute("aria-current", i === index ? "true" : "false");
    });
  }

  /** Bars under the tiles: what each word brings, what its place brings, by place, in log-odds. */
  effects(order, word, place) {
    const most = Math.max(0.05, ...word.map(Math.abs), ...place.map(Math.abs));
    order.forEach((index, at) => {
      const [ours, its] = this.items[index].querySelectorAll(".effect");
      ours.style.height = `${(100 * Math.abs(word[at])) / most}%`;
      ours.classList.toggle("negative", word[at] < 0);
      its.style.height = `${(100 * place[at]) / most}%`;
      this.items[index].title = `word ${signed(word[at], 2)}, place ${place[at].toFixed(2)}`;
    });
  }

  glide(change, except = null) {
    const before = new Map(this.items.map((item) => [item, item.getBoundingClientRect()]));
    change();
    if (calm() || this.items.length > CROWDED) return;
    for (const [item, was] of before) {
      if (item === except) continue;
      const now = item.getBoundingClientRect();
      const [dx, dy] = [was.left - now.left, was.top - now.top];
      if (dx || dy) {
        item.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], {
          duration: 180,
          easing: "cubic-bezier(.2,.8,.2,1)",
        });
      }
    }
  }

  /** Move a tile to a place, from 0. The others move around it: a tile that leaves the document
   *  for a moment loses the focus and the pointer. */
  place(item, at, { gliding = true } = {}) {
    const tiles = Array.from(this.list.children);
    const from = tiles.indexOf(item);
    const change = () => {
      const after = item.nextSibling;
      for (const other of tiles.slice(from + 1, at + 1)) this.list.insertBefore(other, item);
      for (const other of tiles.slice(at, from)) this.list.insertBefore(other, after);
    };
    this.glide(change, gliding ? null : item);
    this.onMove(this.order);
  }

  press(event) {
    const button = event.target.closest(".tile");
    if (!button || event.button !== 0 || this.drag) return;
    const item = button.parentElement;
    this.onSelect(Number(item.dataset.index));
    const box = item.getBoundingClientRect();
    this.drag = {
      item,
      button,
      id: event.pointerId,
      from: [event.clientX, event.clientY],
      grip: [event.clientX - box.left, event.clientY - box.top],
      before: this.order,
      begun: false,
    };
    button.setPointerCapture(event.pointerId);
    const stop = new AbortController();
    const listen = (kind, run) => button.addEventListener(kind, run, { signal: stop.signal });
    const end = (cancelled) => {
      stop.abort();
      this.release(cancelled);
    };
    listen("pointermove", (move) => this.pull(move));
    listen("pointerup", () => end(false));
    listen("pointercancel", () => end(true));
    this.cancel = () => end(true);
  }

  pull(event) {
    const { drag } = this;
    if (!drag || event.pointerId !== drag.id) return;
    const far = Math.hypot(event.clientX - drag.from[0], event.clientY - drag.from[1]);
    if (!drag.begun && far < THRESHOLD) return;
    drag.begun = true;
    drag.item.classList.add("dragged");
    const origin = this.list.getBoundingClientRect();
    const [px, py] = [event.clientX - origin.left, event.clientY - origin.top + this.list.scrollTop];
    const others = Array.from(this.list.children).filter((other) => other !== drag.item);
    // Layout boxes are not affected by the gliding of tiles.
    const isBefore = ({ offsetLeft: left, offsetTop: top, offsetWidth: wide, offsetHeight: high }) =>
      py < top || (py < top + high && px < left + wide / 2);
    const found = others.findIndex(isBefore);
    const at = found < 0 ? others.length : found;
    if (this.list.children[at] !== drag.item) this.place(drag.item, at, { gliding: false });
    const x = px - drag.grip[0] - drag.item.offsetLeft;
    const y = py - drag.grip[1] - drag.item.offsetTop;
    drag.item.style.transform = `translate(${x}px, ${y}px)`;
  }

  release(cancelled) {
    const { item, begun, before } = this.drag;
    this.drag = null;
    item.classList.remove("dragged");
    if (begun) {
      const was = item.getBoundingClientRect();
      item.style.transform = "";
      const now = item.getBoundingClientRect();
      if (!calm()) {
        const from = `translate(${was.left - now.left}px, ${was.top - now.top}px)`;
        item.animate([{ transform: from }, { transform: "none" }], { duration: 160, easing: "ease-out" });
      }
    }
    item.firstElementChild.focus({ preventScroll: true });
    if (cancelled) {
      this.arrange(before);
      this.onMove(before);
    } else if (begun && before.join() !== this.order.join()) {
      this.onDrop(Number(item.dataset.index), Array.from(this.list.children).indexOf(item));
    }
  }

  key(event) {
    if (event.key === "Escape" && this.drag) return void this.cancel();
    const button = event.target.closest(".tile");
    if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
    const item = button.parentElement;
    const at = Array.from(this.list.children).indexOf(item);
    const last = this.list.children.length - 1;
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last };
    if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      if (this.lifted) this.putDown();
      else this.lift(item);
    } else if (event.key === "Escape" && this.lifted) {
      event.preventDefault();
      const { before } = this.lifted;
      this.putDown();
      this.arrange(before);
      button.focus();
      this.onMove(before);
    } else if (event.key in steps) {
      event.preventDefault();
      const to = Math.min(Math.max(steps[event.key], 0), last);
      if (to === at) return;
      if (this.lifted || event.shiftKey) {
        this.place(item, to);
        this.onDrop(Number(item.dataset.index), to);
      } else {
        const next = this.list.children[to];
        this.onSelect(Number(next.dataset.index));
        next.firstElementChild.focus();
      }
    }
  }

  lift(item) {
    this.lifted = { item, before: this.order };
    item.classList.add("lifted");
    item.firstElementChild.setAttribute("aria-pressed", "true");
    this.onSelect(Number(item.dataset.index));
  }

  putDown() {
    this.lifted.item.classList.remove("lifted");
    this.lifted.item.firstElementChild.removeAttribute("aria-pressed");
    this.lifted = null;
  }
}
