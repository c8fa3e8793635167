// Where the figures come from: computed in the page, or asked of the server.

import { Bag, decoded, logOdds, moved, movesToTry } from "./arithmetic.js";
import { Encoder, N_SPECIALS } from "./tokenizer.js";

const MOST_TEXT = 20000;
const MOST_MOVES = 1200;
const MOST_SHOWN = 20000;
const N_NEAREST = 10;
const ROUNDING = 1e-5;
const SLICE = 4; // milliseconds of work before the page may answer

/** The characters of a text that are read, counted as Python counts them. */
const beginning = (text) => (text.length > MOST_TEXT ? Array.from(text.slice(0, 2 * MOST_TEXT)).slice(0, MOST_TEXT).join("") : text);

const pause = () => new Promise((resume) => setTimeout(resume, 0));

/** A sentence is {text, words, order, edits}: the order holds places of words, edits are by id. */
const idsOf = (sentence, order = sentence.order) => order.map((i) => sentence.words[i].id);

/** Computes in the page, with the model that travels inside it. */
export class LocalBackend {
  /** content(name) returns the tables of a model as text. */
  static async open(about, content) {
    const backend = new LocalBackend();
    backend.about = about;
    backend.latest = 0;
    backend.encoder = new Encoder(about.model);
    backend.bag = new Bag(about.model, await decoded(content("model")));
    if (about.twin_model) {
      backend.twinEncoder = new Encoder(about.twin_model);
      backend.twin = new Bag(about.twin_model, await decoded(content("twin_model")));
    }
    return backend;
  }

  async tokens(text) {
    return this.encoder.encode(beginning(text), this.about.longest);
  }

  async predict(sentence) {
    return this.predictNow(sentence);
  }

  /** Without waiting, which a server cannot do; what is still computed of another order ends. */
  predictNow(sentence) {
    this.latest += 1;
    const probabilities = this.bag.probabilities(idsOf(sentence), sentence.edits);
    let twin = null;
    if (this.twin) {
      const text = sentence.order.map((i) => sentence.words[i].text).join(" ");
      const { words } = this.twinEncoder.encode(text, this.about.longest);
      twin = this.twin.probabilities(words.map(({ id }) => id));
    }
    return { probabilities, twin };
  }

  /** Longer work is done in slices: a function to await between its steps, whether to go on. */
  sliced() {
    const call = ++this.latest;
    let began = performance.now();
    return async () => {
      if (performance.now() - began > SLICE) {
        await pause();
        began = performance.now();
      }
      return call === this.latest;
    };
  }

  /** Probabilities with the word at one place at each of them; null if another call came in between. */
  async sweep(sentence, place) {
    const ids = idsOf(sentence);
    const goesOn = this.sliced();
    const probabilities = [];
    for (let to = 0; to < ids.length; to++) {
      if (!(await goesOn())) return null;
      probabilities.push(this.bag.probabilities(moved(ids.length, place, to).map((i) => ids[i]), sentence.edits));
    }
    return { probabilities };
  }

  /** What each word brings to the log-odds of the predicted class, and what its place brings, the
   *  figures of tasks/explain.py; null if another call came in between. */
  async sensitivity(sentence) {
    const ids = idsOf(sentence);
    const n = ids.length;
    const goesOn = this.sliced();
    const original = this.bag.logits(ids, sentence.edits);
    const predicted = original.indexOf(Math.max(...original));
    const odds = (some) => logOdds(this.bag.logits(some, sentence.edits), predicted);
    const now = logOdds(original, predicted);
    const word = [];
    for (let i = 0; i < n; i++) {
      if (!(await goesOn())) return null;
      word.push(n > 1 ? now - odds(ids.filter((_, j) => j !== i)) : 0);
    }
    const sums = new Float64Array(n);
    const counts = new Float64Array(n);
    for (const [from, to] of movesToTry(n, MOST_MOVES)) {
      if (!(await goesOn())) return null;
      const after = odds(moved(n, from, to).map((i) => ids[i]));
      sums[from] += Math.abs(after - now);
      counts[from] += 1;
    }
    return { predicted, word, place: Array.from(sums, (sum, i) => (counts[i] ? sum / counts[i] : 0)) };
  }

  /** The waves of the words of a sentence, in its order. */
  async waves(ids) {
    return ids.map((id, i) => ({ id, ...this.bag.wave(id, ids[i - 1] ?? 0) }));
  }

  async vocabulary() {
    const end = Math.min(this.encoder.words.length, N_SPECIALS + MOST_SHOWN);
    const ids = Array.from({ length: Math.max(end - N_SPECIALS, 0) }, (_, i) => i + N_SPECIALS);
    const mean = (row) => row.reduce((sum, x) => sum + Math.abs(x), 0) / row.length;
    const { bag } = this;
    const turning = bag.isWave ? bag.tables.get(bag.embedding.views[0].frequency) : null;
    return {
      first: N_SPECIALS,
      words: this.encoder.words.slice(N_SPECIALS, end),
      amplitude: ids.map((id) => mean(bag.words.row(id))),
      delta: turning ? ids.map((id) => mean(turning.row(id))) : null,
    };
  }

  async nearest(id) {
    const table = this.bag.words;
    const mine = table.row(id);
    const norm = (row) => Math.sqrt(row.reduce((sum, x) => sum + x * x, 0));
    const found = [];
    for (let other = N_SPECIALS; other < this.encoder.words.length; other++) {
      if (other === id) continue;
      const row = table.row(other);
      let product = 0;
      for (let d = 0; d < row.length; d++) product += row[d] * mine[d];
      const sizes = Math.max(norm(row), 1e-8) * Math.max(norm(mine), 1e-8);
      found.push({ id: other, text: this.encoder.words[other], cosine: product / sizes });
    }
    return found.sort((a, b) => b.cosine - a.cosine).slice(0, N_NEAREST);
  }
}

/** Asks the server, which computes in PyTorch. */
export class RemoteBackend {
  constructor(about) {
    this.about = about;
    this.cached = new Map();
  }

  async ask(verb, given) {
    const answer = await fetch(`api/${verb}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(given),
    });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    return found;
  }

  given(sentence) {
    const edits = [...sentence.edits].map(([id, edit]) => ({ id, ...edit }));
    return { text: beginning(sentence.text), order: sentence.order, edits };
  }

  tokens(text) {
    return this.ask("tokens", { text: beginning(text) });
  }

  predict(sentence) {
    return this.ask("predict", this.given(sentence));
  }

  sweep(sentence, place) {
    return this.ask("sweep", { ...this.given(sentence), place });
  }

  sensitivity(sentence) {
    return this.ask("sensitivity", this.given(sentence));
  }

  async waves(ids) {
    const pairs = ids.map((id, i) => [id, ids[i - 1] ?? 0]);
    const missing = new Map(pairs.filter((pair) => !this.cached.has(pair.join())).map((pair) => [pair.join(), pair]));
    if (missing.size) {
      const asked = [...missing.values()];
      const { waves } = await this.ask("waves", { ids: asked.map(([id]) => id), before: asked.map(([, before]) => before) });
      [...missing.keys()].forEach((key, i) => this.cached.set(key, waves[i]));
    }
    return pairs.map((pair) => this.cached.get(pair.join()));
  }

  vocabulary() {
    return this.ask("vocabulary", {});
  }

  async nearest(id) {
    return (await this.ask("nearest", { id })).nearest;
  }
}

/** Whether a change of a probability may be more than rounding. */
export const isChange = (x) => Math.abs(x) > ROUNDING;
