// How texts become ids: the mirror of text/tokenizers.py (plain, kim) and text/vocabulary.py.

const UNSPACED = "\\u3041-\\u3096\\u30a1-\\u30fa\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
// The white space of Python, which is not quite that of JavaScript.
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const ACCENT = "[\\p{M}\\u200c\\u200d]";
const LETTER = `(?![${UNSPACED}])[\\p{L}\\p{N}_]`;
const ANY = new RegExp(`(?:${LETTER})+(?:${ACCENT}+(?:${LETTER})*)*|[^${SPACE}]${ACCENT}*`, "gu");
const ASCII = /[a-z0-9_]+|[^\w\t-\r\x1c-\x20]/g;
const KIM = /[(),!?]|[a-zA-Z0-9'`](?:[a-mo-zA-Z0-9`]|n(?!'t)|'(?!s|ve|re|d|ll))*/g;
const MOST_NORMALISED = 100;

function plain(text) {
  const lower = text.toLowerCase();
  if (/^[\x00-\x7f]*$/.test(text)) return lower.match(ASCII) ?? [];
  return (lower.match(ANY) ?? []).map((word) =>
    Array.from(word).length <= MOST_NORMALISED ? word.normalize("NFC") : word,
  );
}

const kim = (text) => (text.match(KIM) ?? []).map((token) => token.toLowerCase());

/** CRC-32 of the UTF-8 bytes of a text, as zlib computes it. */
export function crc32(text) {
  let crc = ~0;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

export const N_SPECIALS = 2;
const UNKNOWN_ID = 1;

/** Turns texts into words with ids. */
export class Encoder {
  constructor({ words, tokenizer, hashed, first_rare: firstRare, longest }) {
    this.split = tokenizer === "kim" ? kim : plain;
    this.ids = new Map(words.map((word, i) => [word, i]).slice(N_SPECIALS));
    this.words = words;
    this.hashed = hashed;
    this.firstRare = firstRare;
    this.longest = longest;
  }

  id(token) {
    const known = this.ids.get(token);
    if (known !== undefined) return known;
    const rare = this.words.length - this.firstRare;
    return this.hashed && rare > 0 ? this.firstRare + (crc32(token) % rare) : UNKNOWN_ID;
  }

  /** Words of a text, at most so many, and the number of those beyond. */
  encode(text, most) {
    const found = this.split(text);
    const tokens = found.length ? found : ["<unk>"];
    const words = tokens.slice(0, Math.min(most, this.longest)).map((token) => ({
      text: token,
      id: found.length ? this.id(token) : UNKNOWN_ID,
      known: this.ids.has(token),
    }));
    return { words, cut: tokens.length - words.length };
  }
}
