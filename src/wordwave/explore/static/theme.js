// Light, dark, or as the system is set.

const THEMES = ["auto", "light", "dark"];
const KEPT = "wordwave-theme";

function kept() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null; // a page from disk may have no storage
  }
}

function keep(name) {
  try {
    localStorage.setItem(KEPT, name);
  } catch {
    // it lasts as long as the page
  }
}

/** Let a button choose the theme; onChange() after each change. */
export function useThemes(button, onChange) {
  let current = THEMES.includes(kept()) ? kept() : THEMES[0];
  const apply = () => {
    button.textContent = `Colours: ${current}`;
    if (current === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = current;
    onChange();
  };
  button.addEventListener("click", () => {
    current = THEMES[(THEMES.indexOf(current) + 1) % THEMES.length];
    apply();
    keep(current);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onChange);
  apply();
}
