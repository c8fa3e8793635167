// The arithmetic of a bag-of-waves classifier: the mirror of explore/bag.py, in double precision.

const ARRAYS = { int8: Int8Array, int32: Int32Array, float16: Uint16Array, float32: Float32Array };

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return (sign * fraction) / 2 ** 24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** A table of numbers, stored as integers times steps or as floats; rows are restored when used. */
export class Table {
  constructor(entry, buffer) {
    const view = (part) => {
      if (!entry[part]) return null;
      const { dtype, shape, at } = entry[part];
      const size = shape.reduce((a, b) => a * b, 1);
      if (dtype !== "int16") return new ARRAYS[dtype](buffer, at, size);
      const bytes = new Uint8Array(buffer, at, 2 * size); // all low bytes, then all high ones
      return Int16Array.from({ length: size }, (_, i) => bytes[i] | (bytes[size + i] << 8));
    };
    this.values = view("values");
    this.step = view("step");
    this.base = view("base");
    this.scale = entry.scale;
    this.isHalf = entry.values.dtype === "float16";
    [this.height, this.width] = entry.values.shape;
  }

  /** A row as float32 numbers, repeated to a width if it has only one. */
  row(index, width = this.width) {
    const row = new Float32Array(width);
    const start = (this.height === 1 ? 0 : index) * this.width;
    for (let d = 0; d < width; d++) {
      const column = this.width === 1 ? 0 : d;
      const value = this.values[start + column];
      if (this.isHalf) row[d] = half(value);
      else if (this.scale === "rows") row[d] = value * this.step[start / this.width];
      else if (this.scale === "columns") row[d] = this.base[column] + value * this.step[column];
      else row[d] = value;
    }
    return row;
  }
}

/** A place, from 1, as a view counts it. */
export function counted(view, place, length) {
  if (view === "end") return length + 1 - place;
  return view === "relative" ? place / (length + 1) : place;
}

const concerns = (edit, d) => edit && (edit.dimension === null || edit.dimension === d);

/** r·r₁^p·e^{i(ω·p + θ)} of one dimension of a word's wave, changed by an edit: [size, angle]. */
export function polar(wave, view, d, p, edit = null) {
  let size = wave.amplitude[d];
  let frequency = wave.frequencies[view][d];
  let phase = wave.phase ? wave.phase[d] : 0;
  if (wave.damping) size *= Math.exp(-wave.damping[d] * p);
  if (concerns(edit, d)) {
    size *= edit.amplitude * Math.exp(-edit.damping * p);
    frequency *= edit.frequency;
    phase += edit.phase;
  }
  return [size, frequency * p + phase];
}

/** The same as a point of the complex plane, [real, imaginary]. */
export function phasor(wave, view, d, p, edit = null) {
  const [size, angle] = polar(wave, view, d, p, edit);
  return [size * Math.cos(angle), size * Math.sin(angle)];
}

const softplus = (x) => (x > 30 ? x : Math.log1p(Math.exp(x)));
const MOST_CACHED = 1 << 13;
const MOST_WORDS = 2 ** 26; // so that a pair of ids is one exact number

/** A classifier: tables, and layers from ids to probabilities. */
export class Bag {
  constructor(model, buffer) {
    this.tables = new Map(model.tables.map((entry) => [entry.name, new Table(entry, buffer)]));
    [this.embedding, this.pool, ...this.head] = model.layers;
    if (this.head.pop().op !== "softmax") throw new Error("the last layer of a model must be softmax");
    this.isWave = this.embedding.op === "waves";
    const words = this.tables.get(this.isWave ? this.embedding.amplitude : this.embedding.vectors);
    this.words = words;
    const turning = this.isWave ? this.tables.get(this.embedding.views[0].frequency) : words;
    this.dim = Math.max(words.width, turning.width);
    this.bigrams = null; // pairs of ids that have a row, as one number
    if (this.embedding.bigrams) {
      const { values, height } = this.tables.get(this.embedding.bigrams.pairs);
      this.bigrams = new Map(Array.from({ length: height }, (_, i) => [values[2 * i] * MOST_WORDS + values[2 * i + 1], i]));
    }
    this.views = this.isWave ? this.embedding.views.filter(({ position }) => position !== "context") : [];
    this.context = this.isWave ? this.contextOf(this.embedding.views.find(({ position }) => position === "context")) : null;
    this.rows = new Map();
    this.vectors = new Map();
    this.cachedRows = new Map();
    this.cachedFor = "";
    this.weights = new Map();
    for (const layer of this.head.filter(({ op }) => op === "linear")) {
      const weight = this.tables.get(layer.weight);
      this.weights.set(layer, {
        rows: Array.from({ length: weight.height }, (_, i) => weight.row(i)),
        bias: this.tables.get(layer.bias).row(0),
      });
    }
  }

  /** The view context: its word vectors, and its step r₁·e^{iω} and the power of it that leaves the window, [real, imaginary]. */
  contextOf(view) {
    if (!view) return null;
    const [frequency, damping] = [view.frequency, view.damping].map((name) => this.tables.get(name).row(0));
    const power = (p) => Array.from({ length: this.dim }, (_, d) => {
      const band = Math.floor((d * frequency.length) / this.dim);
      const size = Math.exp(-p * softplus(damping[band]));
      return [size * Math.cos(p * frequency[band]), size * Math.sin(p * frequency[band])];
    });
    return { ...view, step: power(1), last: power(view.window + 1), at: this.embedding.views.indexOf(view) };
  }

  /** A row of a word, with that of the pair of it and the word before, if there are bigrams. */
  sized(name, id, before) {
    const row = Float64Array.from(this.tables.get(name).row(id, this.dim));
    const pair = this.bigrams?.get(before * MOST_WORDS + id);
    if (pair !== undefined) {
      const { vectors, scale } = this.embedding.bigrams;
      const added = this.tables.get(vectors).row(pair, this.dim);
      for (let d = 0; d < row.length; d++) row[d] += scale * added[d];
    }
    return row;
  }

  /** The tables of a word's wave, after another word, or 0. */
  wave(id, before = 0) {
    if (this.rows.size > 1024) this.rows.clear();
    const key = `${this.bigrams ? before : 0} ${id}`;
    if (!this.rows.has(key)) {
      const { amplitude, phase, damping } = this.embedding;
      const row = (name) => this.tables.get(name).row(id, this.dim);
      this.rows.set(key, {
        amplitude: this.sized(amplitude, id, before),
        frequencies: this.views.map((view) => row(view.frequency)),
        phase: phase ? row(phase) : null,
        damping: damping ? row(damping).map(softplus) : null,
      });
    }
    return this.rows.get(key);
  }

  /** What a word at a place, from 1, adds to the pool. */
  vector(id, before, place, length, edit = null) {
    if (this.isWave) return this.waveVector(id, before, place, length, edit);
    return this.wordVector(id, before, place);
  }

  waveVector(id, before, place, length, edit) {
    const { dim, embedding } = this;
    const n = embedding.views.length;
    const vector = new Float64Array(2 * dim * n);
    const wave = this.wave(id, before);
    for (let v = 0, w = 0; v < n; v++) {
      if (v === this.context?.at) continue; // it depends on the words before, see withContexts
      const p = counted(embedding.views[v].position, place, length);
      for (let d = 0; d < dim; d++) {
        const [size, angle] = polar(wave, w, d, p, edit);
        vector[v * dim + d] = size * Math.cos(angle);
        vector[(n + v) * dim + d] = size * Math.sin(angle);
      }
      w += 1;
    }
    return vector;
  }

  /** The vectors of a sentence with the view context, r·e^{iθ}·√D·Σ_k c_k·(r₁·e^{iω})^(j − k): each
   *  sum is that of the word before and the word before, turned, without what leaves the window. */
  withContexts(vectors, ids, edits) {
    const { dim, context } = this;
    const { step, last, window, at } = context;
    const [real, imaginary] = [at * dim, (this.embedding.views.length + at) * dim];
    const rows = ids.map((id) => this.cachedRow(context.vectors, id));
    const [re, im] = [new Float64Array(dim), new Float64Array(dim)];
    const scale = Math.sqrt(dim);
    return vectors.map((vector, j) => {
      if (!j) return vector;
      const [came, left] = [rows[j - 1], rows[j - 1 - window]];
      const { amplitude, phase } = this.wave(ids[j], this.bigrams ? ids[j - 1] : 0);
      const edit = edits.get(ids[j]) ?? null;
      const found = Float64Array.from(vector);
      for (let d = 0; d < dim; d++) {
        const [a, b] = step[d];
        const [u, v] = [re[d] + came[d], im[d]];
        re[d] = a * u - b * v - (left ? last[d][0] * left[d] : 0);
        im[d] = a * v + b * u - (left ? last[d][1] * left[d] : 0);
        const isEdited = concerns(edit, d);
        const size = scale * amplitude[d] * (isEdited ? edit.amplitude : 1);
        const turn = (phase ? phase[d] : 0) + (isEdited ? edit.phase : 0);
        const [c, s] = [size * Math.cos(turn), size * Math.sin(turn)];
        found[real + d] = c * re[d] - s * im[d];
        found[imaginary + d] = c * im[d] + s * re[d];
      }
      return found;
    });
  }

  wordVector(id, before, place) {
    const { vectors, positions, phase } = this.embedding;
    const word = this.sized(vectors, id, before);
    if (positions) {
      const added = this.tables.get(positions).row(place);
      for (let d = 0; d < this.dim; d++) word[d] += added[d];
    }
    if (!phase) return word;
    const angles = this.tables.get(phase).row(id, this.dim);
    const vector = new Float64Array(2 * this.dim);
    for (let d = 0; d < this.dim; d++) {
      vector[d] = word[d] * Math.cos(angles[d]);
      vector[this.dim + d] = word[d] * Math.sin(angles[d]);
    }
    return vector;
  }

  /** The probabilities of the classes for a sentence of ids; edits are by id. */
  probabilities(ids, edits = new Map()) {
    return Array.from(softmax(this.logits(ids, edits)));
  }

  /** The numbers whose softmax are the probabilities. */
  logits(ids, edits = new Map()) {
    const length = ids.length;
    const changed = JSON.stringify([length, [...edits]]);
    if (this.cachedFor !== changed || this.vectors.size > MOST_CACHED) {
      this.vectors.clear();
      this.cachedFor = changed;
    }
    let vectors = ids.map((id, i) => {
      const before = this.bigrams && i ? ids[i - 1] : 0;
      const key = before ? `${before} ${id} ${i}` : id * 4096 + i;
      let vector = this.vectors.get(key);
      if (!vector) {
        vector = this.vector(id, before, i + 1, length, edits.get(id) ?? null);
        this.vectors.set(key, vector);
      }
      return vector;
    });
    if (this.context) vectors = this.withContexts(vectors, ids, edits);
    let x = null;
    for (const vector of vectors) {
      if (x === null) x = Float64Array.from(vector);
      else if (this.pool.kind === "max") {
        for (let d = 0; d < x.length; d++) x[d] = Math.max(x[d], vector[d]);
      } else for (let d = 0; d < x.length; d++) x[d] += vector[d];
    }
    const share = { mean: length, sqrt: Math.sqrt(length) }[this.pool.kind];
    if (share) x = x.map((value) => value / share);
    for (const layer of this.head) x = this.apply(layer, x, ids);
    return x;
  }

  apply(layer, x, ids) {
    if (layer.op === "magnitude") {
      const n = x.length / 2;
      return Float64Array.from({ length: n }, (_, d) => Math.hypot(x[d], x[n + d]));
    }
    if (layer.op === "linear") {
      const { rows, bias } = this.weights.get(layer);
      return Float64Array.from(rows, (row, i) => {
        let sum = bias[i];
        for (let d = 0; d < row.length; d++) sum += row[d] * x[d];
        return sum;
      });
    }
    if (layer.op === "relu") return x.map((value) => Math.max(value, 0));
    if (layer.op === "ngrams") {
      const added = this.ngrams(layer, ids);
      return x.map((value, i) => layer.scale * value + added[i]);
    }
    throw new Error(`this page has no operation ${layer.op}`);
  }

  /** The logits of n-grams, those of unknown words left out: each distinct word and pair counts once. */
  ngrams({ words, bigrams, bias }, ids) {
    const found = Float64Array.from(this.tables.get(bias).row(0));
    const n = found.length;
    const sums = new Float64Array(2 * n + 2); // of words and bigrams, then of parts of words
    const add = (name, index) => this.cachedRow(name, index).forEach((value, d) => (sums[d] += value));
    for (const id of new Set(ids)) add(words, id);
    if (bigrams) {
      const pairs = new Set(ids.slice(1).map((id, i) => this.bigrams.get(ids[i] * MOST_WORDS + id)));
      pairs.delete(undefined);
      for (const pair of pairs) add(bigrams, pair);
    }
    for (const start of [0, n + 1]) {
      const size = Math.sqrt(Math.max(sums[start + n], 1e-12));
      for (let c = 0; c < n; c++) found[c] += sums[start + c] / size;
    }
    return found;
  }

  cachedRow(name, index) {
    if (this.cachedRows.size > MOST_CACHED) this.cachedRows.clear();
    const key = `${name} ${index}`;
    if (!this.cachedRows.has(key)) this.cachedRows.set(key, this.tables.get(name).row(index));
    return this.cachedRows.get(key);
  }
}

/** Probabilities of logits. */
export function softmax(logits) {
  const most = Math.max(...logits);
  const grown = logits.map((value) => Math.exp(value - most));
  const total = grown.reduce((a, b) => a + b, 0);
  return grown.map((value) => value / total);
}

/** ln(p / (1 − p)) of one class, without 1 − p, which is 0 for large logits; a single output as it is. */
export function logOdds(logits, predicted) {
  const others = logits.filter((_, i) => i !== predicted);
  if (!others.length) return logits[predicted];
  const most = Math.max(...others);
  return logits[predicted] - most - Math.log(others.reduce((sum, value) => sum + Math.exp(value - most), 0));
}

/** The places of a sentence with the word at one place moved to another, both from 0. */
export function moved(n, from, to) {
  const order = Array.from({ length: n }, (_, i) => i);
  order.splice(to, 0, ...order.splice(from, 1));
  return order;
}

function roundedToEven(x) {
  const floor = Math.floor(x);
  if (x - floor !== 0.5) return Math.round(x);
  return floor % 2 ? floor + 1 : floor;
}

/** All moves of single words, or as in tasks/explain.py some of them if there are many. */
export function movesToTry(n, most) {
  let places = Array.from({ length: n }, (_, i) => i);
  if (n * (n - 1) > most) {
    const steps = Math.max(Math.floor(most / n), 3);
    places = places.slice(0, 0);
    for (let k = 0; k < steps; k++) places.push(roundedToEven((k * (n - 1)) / (steps - 1)));
  }
  const moves = new Set();
  for (let word = 0; word < n; word++) {
    for (const to of places) if (to !== word) moves.add(word * n + to);
    if (word + 1 < n) moves.add(word * n + word + 1);
  }
  return [...moves].sort((a, b) => a - b).map((code) => [Math.floor(code / n), code % n]);
}

/** The compressed bytes of a text in base 64. */
export function decoded(text) {
  const signs = atob(text.trim());
  const bytes = new Uint8Array(signs.length);
  for (let i = 0; i < signs.length; i++) bytes[i] = signs.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
