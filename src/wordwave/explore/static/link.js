// The state of the page as a fragment of its address.

/** The lowest and highest value of each slider, and its step. */
export const SLIDERS = { frequency: [0, 4, 0.05], phase: [-3.15, 3.15, 0.05], amplitude: [0, 3, 0.05], damping: [0, 0.5, 0.01] };

/** A word as it is. */
export const NEUTRAL = { frequency: 1, phase: 0, amplitude: 1, damping: 0, dimension: null };

const MOST_EDITS = 64;

export function fragment({ text, order, selected, dimension, view, edits }) {
  const parts = new URLSearchParams({ s: text });
  if (order.some((v, i) => v !== i)) parts.set("o", order.join("."));
  if (selected) parts.set("w", selected);
  if (dimension !== null) parts.set("d", dimension);
  if (view) parts.set("v", view);
  for (const [id, edit] of edits) {
    const numbers = Object.keys(SLIDERS).map((name) => edit[name]);
    parts.append("e", [id, ...numbers, edit.dimension ?? ""].join("_"));
  }
  return `#${parts}`;
}

/** The state that a fragment holds; anyone may have written it, and what is not valid is left out. */
export function parsed(hash, { dim, views, n_words: nWords }) {
  const parts = new URLSearchParams(hash.slice(1));
  const whole = (text, below) => (/^\d{1,7}$/.test(text ?? "") && Number(text) < below ? Number(text) : null);
  const edits = new Map();
  for (const text of views.length ? parts.getAll("e").slice(0, MOST_EDITS) : []) {
    const [id, ...rest] = text.split("_");
    const numbers = rest.slice(0, 4).map(Number);
    const inRange = Object.values(SLIDERS).every(([low, high], i) => numbers[i] >= low && numbers[i] <= high);
    if (whole(id, nWords) === null || rest.length !== 5 || !inRange) continue;
    const edit = Object.fromEntries(Object.keys(SLIDERS).map((name, i) => [name, numbers[i]]));
    edits.set(Number(id), { ...edit, dimension: whole(rest[4], dim) });
  }
  return {
    text: parts.get("s"),
    order: (parts.get("o") ?? "").split(".").map((text) => whole(text, 1000) ?? -1),
    selected: whole(parts.get("w"), 1000) ?? 0,
    dimension: whole(parts.get("d"), dim),
    view: whole(parts.get("v"), views.length) ?? 0,
    edits,
  };
}
