// Elements made without markup, and numbers as text.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; text is never parsed as markup. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const percent = (p) => `${(100 * p).toFixed(p > 0.9995 || p < 0.0005 ? 0 : 1)}%`;

export const signed = (x, digits = 2) => {
  const text = Math.abs(x).toFixed(digits);
  return Number(text) === 0 ? text : `${x < 0 ? "−" : "+"}${text}`;
};

export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

/** A text of bounded length whose control characters are visible. */
export function shown(text, most = 32) {
  const plain = text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, "�");
  const signs = Array.from(plain);
  return signs.length > most ? `${signs.slice(0, most - 1).join("")}…` : plain || "␣";
}

/** A function that runs once, after so many milliseconds without another call, unless cancelled. */
export function settled(run, milliseconds) {
  let timer = 0;
  const cancel = () => clearTimeout(timer);
  const call = () => {
    cancel();
    timer = setTimeout(run, milliseconds);
  };
  return Object.assign(call, { cancel });
}
