// Markup from a template of the page, its slots filled with texts.

export function copy_of(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

// A slot without a text is hidden.
export function fill(element, texts) {
  for (const [name, text] of Object.entries(texts)) {
    const slot = element.querySelector(`[data-slot="${name}"]`);
    slot.textContent = text;
    slot.hidden = !text;
  }
  return element;
}
