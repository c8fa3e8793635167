// Browsers do not fetch pages from file:// for the excerpts below search results.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// On a phone wide figures scroll (wordwave.css), also by the keyboard.
for (const figure of document.querySelectorAll('p > img[src$=".svg"]')) {
  figure.parentElement.tabIndex = 0;
}
