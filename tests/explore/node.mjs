// Answers requests, a JSON list on standard input, with the scripts of an exported page.
import { readFileSync } from "node:fs";
import { LocalBackend } from "./backends.js";

const page = readFileSync(process.argv[2], "utf-8");
const content = (id) => page.match(new RegExp(`<script type="[^"]*" id="${id}">([^<]*)</script>`))[1];
const backend = await LocalBackend.open(JSON.parse(content("about")), (name) => content(`data-${name}`));

async function sentence({ text, order, edits = [] }) {
  const { words } = await backend.tokens(text);
  return { text, words, order: order ?? words.map((_, i) => i), edits: new Map(edits.map(({ id, ...edit }) => [id, edit])) };
}

const answers = [];
for (const [verb, given] of JSON.parse(readFileSync(0, "utf-8"))) {
  if (verb === "tokens") answers.push(await backend.tokens(given));
  else if (verb === "sweep") answers.push(await backend.sweep(await sentence(given), given.place));
  else if (verb === "predict" || verb === "sensitivity") answers.push(await backend[verb](await sentence(given)));
  else answers.push(await backend[verb](given));
}
process.stdout.write(JSON.stringify(answers));
