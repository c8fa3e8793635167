// The state of the page, and what happens when it changes.

import { LocalBackend, RemoteBackend, isChange } from "./backends.js";
import { Bars, drawChain, drawPhasors, drawSweep, drawWaves, firstTurning, largest } from "./charts.js";
import { element, percent, settled, shown, signed } from "./format.js";
import { NEUTRAL, SLIDERS, fragment, parsed } from "./link.js";
import { useThemes } from "./theme.js";
import { Tiles } from "./tiles.js";
import { VocabularyView } from "./vocabulary.js";

const $ = (id) => document.getElementById(id);
const about = JSON.parse($("about").textContent);
const backend = about.model ? await LocalBackend.open(about, (name) => $(`data-${name}`).textContent) : new RemoteBackend(about);
const MOST_LINK = 8000; // characters; a longer address is left as it is
const hasWaves = about.views.length > 0;
const isSum = ["sum", "mean", "sqrt"].includes(about.pooling); // null for other encoders

const state = { text: "", words: [], order: [], selected: 0, dimension: null, view: 0, edits: new Map() };
let first = null; // the probabilities of the words as they were typed
let latest = null;
let shownPlace = 1; // glides to the place of the selected word

const ours = new Bars($("ours"));
const theirs = new Bars($("twin"));
const tiles = new Tiles($("tiles"), {
  onMove: (order) => reorder(order),
  onSelect: (index) => select(index),
  onDrop: (index, place) => announce(index, place),
});
const vocabulary = new VocabularyView(
  { canvas: $("scatter"), search: $("search"), found: $("found"), nearest: $("nearest"), title: $("nearest-title") },
  backend,
);

const place = () => state.order.indexOf(state.selected);
const word = () => state.words[state.selected];
const sentence = () => ({ text: state.text, words: state.words, order: state.order, edits: new Map(state.edits) });

function problem(error) {
  const lost = error instanceof TypeError && !about.model;
  const text = lost ? "The server does not answer: is wordwave explore still running?" : String(error.message ?? error);
  $("problem").textContent = shown(text, 300);
  $("problem").hidden = false;
  document.body.dataset.ready = "true"; // nothing more will be shown
}

const guarded = (run) => async (...given) => {
  try {
    return await run(...given);
  } catch (error) {
    problem(error);
    return null;
  }
};

let changes = 0;

/** From a change until all that it asks for is shown, the page is not ready. */
function begin() {
  changes += 1;
  delete document.body.dataset.ready;
}

let typed = 0; // sentences so far: what is computed of an earlier one is not shown
const typing = settled(() => setText($("text").value), 160);

/** Another sentence. */
const setText = guarded(async (text, { order = null, selected = 0 } = {}) => {
  begin();
  typing.cancel();
  const call = ++typed;
  const { words, cut } = await backend.tokens(text);
  const natural = words.map((_, i) => i);
  const found = await backend.predict({ text, words, order: natural, edits: new Map(state.edits) });
  if (call !== typed) return;
  first = found;
  const isOrder = order && order.length === words.length && [...order].sort((a, b) => a - b).every((v, i) => v === i);
  Object.assign(state, { text, words, order: isOrder ? order : natural, selected: Math.min(selected, words.length - 1) });
  $("cut").hidden = !cut;
  $("cut").textContent = cut ? `The explorer shows the first ${words.length} words; ${cut.toLocaleString("en")} more are left out.` : "";
  tiles.show(words, state.order);
  tiles.select(state.selected);
  shownPlace = place() + 1;
  $("problem").hidden = true;
  vocabulary.mark(words.map(({ id }) => id));
  await predict();
  await drawWord();
  later();
});

/** Another order of the words: the bars follow at once. */
function reorder(order) {
  state.order = order;
  predict();
  glide();
  later();
}

let asking = null;
let askAgain = false;

/** Probabilities of the present order; of a server only the latest order is asked. */
function predict() {
  if (backend.predictNow) return void showPrediction(backend.predictNow(sentence()));
  askAgain = true;
  asking ??= ask().finally(() => (asking = null));
  return asking;
}

const ask = guarded(async () => {
  while (askAgain) {
    askAgain = false;
    showPrediction(await backend.predict(sentence()));
  }
});

function showPrediction(found) {
  latest = found;
  const isFirst = state.order.every((v, i) => v === i) && !state.edits.size;
  const tell = (node, now, then) => {
    const most = Math.max(...now.map((p, i) => Math.abs(p - then[i])));
    const size = most < 0.0005 ? "less than 0.1 points" : `${(100 * most).toFixed(1)} points`;
    node.classList.toggle("changed", !isFirst && isChange(most));
    node.textContent = isFirst ? "The original order." : isChange(most) ? `Moved by ${size}.` : "As in the original order.";
  };
  ours.draw(about.labels, found.probabilities, first);
  tell($("ours-moved"), found.probabilities, first.probabilities);
  if (found.twin && first.twin) {
    theirs.draw(about.labels, found.twin, first);
    tell($("twin-moved"), found.twin, first.twin);
  }
}

function announce(index, at) {
  if (!latest) return;
  const best = latest.probabilities.indexOf(Math.max(...latest.probabilities));
  const result = `${shown(about.labels[best])} ${percent(latest.probabilities[best])}`;
  $("said").textContent = `${shown(state.words[index].text)} is at place ${at + 1} of ${state.order.length}: ${result}.`;
}

function select(index) {
  if (index === state.selected) return;
  state.selected = index;
  shownPlace = place() + 1;
  tiles.select(index);
  drawWord();
  later();
}

let frame = 0;

/** Turn the phasors from the place where the word was to the place where it is. */
function glide() {
  cancelAnimationFrame(frame);
  drawWord({ resting: false });
  const isSeen = onScreen.has($("waves")) || onScreen.has($("phasors"));
  const calm = !isSeen || matchMedia("(prefers-reduced-motion: reduce)").matches;
  const from = shownPlace;
  let began = null;
  const step = (now) => {
    began ??= now;
    const t = calm ? 1 : Math.min((now - began) / 320, 1);
    shownPlace = from + (place() + 1 - from) * (1 - (1 - t) ** 3);
    drawPlace({ all: t === 1 });
    if (t < 1) frame = requestAnimationFrame(step);
  };
  frame = requestAnimationFrame(step);
}

const onScreen = new Set(); // charts to draw while a word moves; the others follow when it rests
let drawn = 0;
let its = null; // what is drawn of the selected word

/** The charts of the selected word. */
const drawWord = guarded(async ({ resting = true } = {}) => {
  const chosenWord = word();
  if (!chosenWord) return;
  const at = place() + 1;
  $("word-title").textContent = `“${shown(chosenWord.text)}”, word ${at} of ${state.order.length}`;
  if (!hasWaves) return;
  const call = ++drawn;
  const ids = state.order.map((i) => state.words[i].id);
  const waves = await backend.waves(ids);
  if (call !== drawn) return;
  const wave = waves[at - 1];
  const dimension = state.dimension ?? firstTurning(wave, state.view);
  const edit = state.edits.get(wave.id) ?? null;
  const mean = (row) => row.reduce((sum, v) => sum + Math.abs(v), 0) / row.length;
  const another = chosenWord.known ? "" : "; it is not in the vocabulary, so it has the wave of another or of the unknown word";
  $("word-about").textContent =
    `Mean amplitude ${mean(wave.amplitude).toFixed(3)}${about.bigrams ? " with what the pair of it and the word before adds" : ""}, sensitivity\u00a0δ\u00a0${mean(wave.frequencies[state.view]).toFixed(3)}${another}.`;
  const common = { view: state.view, viewName: about.views[state.view], chosen: dimension };
  its = { ...common, wave, edit, word: chosenWord.text, dimensions: largest(wave, dimension), length: ids.length };
  if (resting) drawPlace({ all: true });
  fillDimensions(wave, dimension);
  if (isSum && (resting || onScreen.has($("chain")))) {
    const words = state.order.map((i) => state.words[i].text);
    drawChain($("chain"), { ...common, waves, words, selected: at - 1, edits: state.edits, pooling: about.pooling });
  }
  showSliders();
});

/** What depends on the place alone, and glides with it. */
function drawPlace({ all = false } = {}) {
  if (!its) return;
  const now = { ...its, place: shownPlace };
  if (all || onScreen.has($("waves"))) drawWaves($("waves"), now);
  if (all || onScreen.has($("phasors"))) drawPhasors($("phasors"), now);
}

let filledFor = "";

function fillDimensions(wave, dimension) {
  const key = `${wave.id} ${dimension}`;
  if (key === filledFor) return;
  filledFor = key;
  const order = Array.from(wave.amplitude, (r, d) => [Math.abs(r), d]).sort((a, b) => b[0] - a[0]);
  $("dimension").replaceChildren(
    ...order.slice(0, 256).map(([, d]) => element("option", { value: d }, `${d}  (r ${signed(wave.amplitude[d])}, ω ${signed(wave.frequencies[state.view][d])})`)),
  );
  $("dimension").value = String(dimension);
}

/** What takes longer waits until the word rests. */
function later() {
  begin();
  rest();
}

const rest = settled(
  guarded(async () => {
    const change = changes;
    saveLink();
    await Promise.all([loading, asking, drawWord()]);
    if (change !== changes) return;
    const at = place();
    const swept = await backend.sweep(sentence(), at);
    if (!swept || change !== changes) return;
    drawSwept(swept.probabilities, at);
    const found = await backend.sensitivity(sentence());
    if (!found || change !== changes) return;
    tiles.effects(state.order, found.word, found.place);
    $("legend-unit").textContent = `in log-odds of “${shown(about.labels[found.predicted])}”`;
    document.body.dataset.ready = "true";
  }),
  140,
);

let sweep = null;

function drawSwept(probabilities, at) {
  const here = probabilities[at];
  const predicted = here.indexOf(Math.max(...here));
  sweep = { probabilities, labels: about.labels, place: at, predicted, word: word().text };
  const curve = probabilities.map((row) => row[predicted]);
  const [low, high] = [Math.min(...curve), Math.max(...curve)];
  const best = curve.indexOf(high) + 1;
  const range = high - low > 0.0005 ? `from ${percent(low)} to ${percent(high)} (place ${best})` : `${percent(high)} at every place`;
  $("sweep-about").textContent = `Probability of “${shown(about.labels[predicted])}” against the place of “${shown(word().text)}”: ${range}.`;
  drawSweep($("sweep"), sweep);
}

function showSliders() {
  const edit = state.edits.get(word().id) ?? NEUTRAL;
  for (const name of Object.keys(SLIDERS)) {
    const input = $(name);
    input.value = String(edit[name]);
    const texts = {
      frequency: `× ${edit.frequency.toFixed(2)}`,
      phase: `${signed(edit.phase)} rad`,
      amplitude: `× ${edit.amplitude.toFixed(2)}`,
      damping: edit.damping ? `× e^(−${edit.damping.toFixed(2)} p)` : "none",
    };
    input.nextElementSibling.textContent = texts[name];
    input.setAttribute("aria-valuetext", texts[name]);
  }
  $("scope").value = edit.dimension === null ? "all" : "one";
  $("reset").disabled = !state.edits.has(word().id);
  $("reset-all").disabled = !state.edits.size;
}

function changed() {
  predict();
  drawWord();
  later();
}

function editWord() {
  const { id } = word();
  const scope = $("scope").value === "one" ? Number($("dimension").value) : null;
  const edit = { ...NEUTRAL, dimension: scope };
  for (const name of Object.keys(SLIDERS)) edit[name] = Number($(name).value);
  if (Object.keys(SLIDERS).every((name) => edit[name] === NEUTRAL[name]) && scope === null) state.edits.delete(id);
  else state.edits.set(id, edit);
  changed();
}

function saveLink() {
  const wanted = fragment(state);
  if (wanted.length < MOST_LINK && wanted !== location.hash) history.replaceState(null, "", wanted);
}

/** The state that the address holds. */
function restore() {
  const { text, order, selected, ...rest } = parsed(location.hash, about);
  Object.assign(state, rest);
  $("text").value = text ?? about.examples[0] ?? "";
  return setText($("text").value, { order, selected });
}

function wire() {
  $("text").addEventListener("input", () => {
    begin();
    typing();
  });
  $("sentence").addEventListener("submit", (event) => {
    event.preventDefault();
    setText($("text").value);
  });
  $("examples").replaceChildren(
    ...about.examples.map((text) => {
      const chip = element("button", { type: "button", class: "chip" }, shown(text, 60));
      chip.addEventListener("click", () => {
        $("text").value = text;
        setText(text);
      });
      return chip;
    }),
  );
  const arranged = (order) => {
    tiles.arrange(order);
    reorder(order);
  };
  $("reverse").addEventListener("click", () => arranged([...state.order].reverse()));
  $("shuffle").addEventListener("click", () => {
    const order = [...state.order];
    for (let i = order.length - 1; i > 0; i--) {
      const j = Math.floor(Math.random() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    arranged(order);
  });
  $("original").addEventListener("click", () => arranged(state.words.map((_, i) => i)));
  for (const [name, [low, high, step]] of Object.entries(SLIDERS)) {
    Object.assign($(name), { min: low, max: high, step });
    $(name).addEventListener("input", editWord);
  }
  $("scope").addEventListener("change", editWord);
  $("reset").addEventListener("click", () => {
    state.edits.delete(word().id);
    changed();
  });
  $("reset-all").addEventListener("click", () => {
    state.edits.clear();
    changed();
  });
  $("dimension").addEventListener("change", () => {
    state.dimension = Number($("dimension").value);
    const edit = state.edits.get(word().id);
    if (edit && edit.dimension !== null) editWord();
    else drawWord();
    later();
  });
  $("view").addEventListener("change", () => {
    state.view = Number($("view").value);
    drawWord();
    later();
  });
  $("link").addEventListener("click", guarded(async () => {
    saveLink();
    await navigator.clipboard.writeText(location.href).catch(() => window.prompt("The link", location.href));
    $("said").textContent = "The link is copied.";
    $("link").textContent = "Copied";
    setTimeout(() => ($("link").textContent = "Copy link"), 1500);
  }));
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) onScreen.add(target);
      else onScreen.delete(target);
    }
  });
  for (const id of ["waves", "phasors", "chain"]) watcher.observe($(id));
  addEventListener("hashchange", () => location.hash !== fragment(state) && restore());
  new ResizeObserver(settled(() => {
    drawWord();
    if (sweep) drawSweep($("sweep"), sweep);
    vocabulary.draw();
  }, 60)).observe(document.querySelector("main"));
}

function describe() {
  $("model").textContent = shown(about.name, 60);
  document.title = `${shown(about.name, 60)} · wordwave explorer`;
  const kinds = { "complex-order": "Waves", tpe: "Added positions", pe: "Learned positions", none: "No positions", "complex-vanilla": "No positions" };
  if (!hasWaves) $("title").textContent = "What does word order change?";
  $("ours-title").textContent = hasWaves ? "Waves" : (kinds[about.embedding] ?? about.embedding);
  $("ours-sub").textContent = hasWaves ? "The place turns each word." : `Embedding ${about.embedding}.`;
  if (hasWaves && about.twin === "tpe") $("lead").textContent = "With waves the probabilities follow; with added positions they cannot.";
  $("twin-card").hidden = !about.twin;
  if (about.twin && about.twin !== "tpe") {
    $("twin-title").textContent = kinds[about.twin] ?? about.twin;
    $("twin-card").querySelector(".sub").textContent = `Embedding ${about.twin}.`;
  }
  $("verdicts").classList.toggle("alone", !about.twin);
  for (const id of ["wave-grid", "controls"]) $(id).hidden = !hasWaves;
  $("chain-figure").hidden = !hasWaves || !isSum;
  const share = { mean: ", divided by their number", sqrt: ", divided by the square root of their number" }[about.pooling] ?? "";
  $("chain-about").textContent = `Each word adds its arrow${share}; the chain ends in the value of the sentence.`;
  if (!hasWaves) $("word-about").textContent = `The embedding ${about.embedding} has no waves to draw.`;
  $("view-picker").hidden = about.views.length < 2;
  $("view").replaceChildren(...about.views.map((name, i) => element("option", { value: i }, { start: "the start", end: "the end", relative: `the start, relative to the length${i ? ` (${i})` : ""}` }[name])));
  $("vocabulary-about").textContent = hasWaves
    ? "Words on the right are more sensitive to their place, words at the top have larger amplitudes. Those of the sentence are marked."
    : "Words by the size of their vectors. Those of the sentence are marked.";
  const rounding = about.rounding
    ? ` The weights inside this page are rounded (${about.rounding.precision}), which changes a probability by ${about.rounding.loss < 0.0005 ? "less than 0.1%" : `at most ${percent(about.rounding.loss)}`} on random sentences.`
    : " Computed in PyTorch by the server.";
  const context = about.context ? " Pairs of words (the view context) count, but are not drawn." : "";
  const left = about.ngrams && about.model && !about.model.hashed ? " The page leaves out the character n-grams of unknown words, which wordwave predict counts." : "";
  $("facts").textContent =
    `${shown(about.name, 60)}: encoder ${about.encoder}, embedding ${about.embedding}, ${about.dim} dimensions, ` +
    `${about.n_words.toLocaleString("en")} words, ${about.labels.length} classes.${context}${rounding}${left}`;
}

describe();
wire();
useThemes($("theme"), () => vocabulary.draw());
const loading = guarded(async () => {
  await restore();
  await vocabulary.load();
  vocabulary.mark(state.words.map(({ id }) => id));
  if (vocabulary.data.words.length) {
    const at = word().id - vocabulary.data.first;
    vocabulary.choose(at >= 0 && at < vocabulary.data.words.length ? at : 0);
  }
})();
