// The filters of the catalogue: what may be chosen, how many services each choice finds, what is.
import { ask } from "./api.js";
import { count, plain } from "./text.js";

const PRICES = ["0.001", "0.01", "0.1", "1"];
const form = document.getElementById("search");
const chosen = document.getElementById("chosen");
const panels = [...form.querySelectorAll("[data-filter]")];
// What an address may ask for that the form has no control for.
const UNCONTROLLED = ["tag", "scheme", "integrationType", "match"];
const NARROWING = ["category", "network", "maxPrice", "enriched", ...UNCONTROLLED];
let uncontrolled = [];

// Puts into the form what an address says.
export function show(params) {
  form.elements.q.value = params.get("q") ?? "";
  form.elements.sort.value = params.get("sort") || "relevance";
  form.elements.enriched.checked = params.get("enriched") === "true";
  uncontrolled = [...params].filter(
    ([name, value]) => UNCONTROLLED.includes(name) || (name === "enriched" && value !== "true"),
  );
  for (const panel of panels) {
    const values = params.getAll(panel.dataset.filter);
    offer(panel, values.map((value) => ({ value })), values);
  }
  refresh(params);
}

// What the form says, as the API and the address take it.
export function wanted() {
  const params = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    const nothing = name === "category" ? false : !value.trim();
    if (!nothing && !(name === "sort" && value === "relevance")) params.append(name, value);
  }
  for (const [name, value] of uncontrolled) params.append(name, value);
  return params;
}

// Counts again what is open, and shows what is chosen.
export function refresh(params) {
  for (const panel of panels) if (panel.open) void counts(panel, params);
  const chips = [];
  for (const [name, value] of params) {
    if (NARROWING.includes(name)) chips.push(chip(name, value));
  }
  chosen.replaceChildren(...chips);
}

async function counts(panel, params) {
  const name = panel.dataset.filter;
  const others = new URLSearchParams(params);
  const values = others.getAll(name);
  others.delete(name);
  others.delete("offset");
  others.set("limit", "1");
  others.set("endpoints", "none");
  const path = others.has("q") ? "/v1/search/services" : "/v1/services";
  try {
    if (name === "maxPrice") {
      const found = PRICES.map(async (value) => {
        const { answer } = await ask(path, new URLSearchParams([...others, [name, value]]));
        return { value, count: answer.total };
      });
      offer(panel, [{ value: "" }, ...(await Promise.all(found))], values.length ? values : [""]);
    } else {
      others.set("facets", name);
      const { answer } = await ask(path, others);
      offer(panel, answer.facets[name], values);
    }
  } catch {
    // The results say what is wrong; a filter then stays without counts.
  }
}

function offer(panel, options, values) {
  const fieldset = panel.querySelector("fieldset");
  const known = new Set(options.map((option) => option.value.toLowerCase()));
  const missing = values.filter((value) => !known.has(value.toLowerCase()));
  const focused = fieldset.contains(document.activeElement) ? document.activeElement.value : null;
  const labels = [...options, ...missing.map((value) => ({ value }))].map((option) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = panel.dataset.filter === "maxPrice" ? "radio" : "checkbox";
    input.name = panel.dataset.filter;
    input.value = option.value;
    input.checked = values.some((value) => value.toLowerCase() === option.value.toLowerCase());
    const name = document.createElement("bdi");
    name.textContent = title(input.name, option.value);
    label.append(input, " ", name);
    if (option.count !== undefined) {
      const number = document.createElement("span");
      number.className = "number";
      number.textContent = count(option.count);
      label.append(" ", number);
    }
    return label;
  });
  fieldset.replaceChildren(fieldset.firstElementChild, ...labels);
  if (focused !== null) [...fieldset.querySelectorAll("input")].find((input) => input.value === focused)?.focus();
}

function chip(name, value) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  const text = document.createElement("bdi");
  text.textContent = title(name, value);
  button.type = "button";
  button.append(text, " ×");
  button.setAttribute("aria-label", `Remove the filter ${text.textContent}`);
  button.addEventListener("click", () => {
    for (const input of form.querySelectorAll(`[name="${name}"]`)) {
      if (input.value.toLowerCase() === value.toLowerCase()) input.checked = false;
    }
    uncontrolled = uncontrolled.filter((other) => other[0] !== name || other[1] !== value);
    form.dispatchEvent(new Event("change"));
    form.elements.q.focus();
  });
  item.append(button);
  return item;
}

function title(name, value) {
  if (name === "enriched") return value === "true" ? "Curated" : "Not curated";
  if (name === "maxPrice") return value ? `Up to ${value}` : "Any price";
  if (name === "match") return value === "all" ? "All words" : "Any word";
  return plain(value) || "None";
}

for (const panel of panels) {
  panel.addEventListener("toggle", () => panel.open && void counts(panel, wanted()));
}
addEventListener("keydown", (event) => {
  const open = panels.find((panel) => panel.open);
  if (event.key === "Escape" && open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
for (const leaving of ["pointerdown", "focusin"]) {
  addEventListener(leaving, (event) => {
    for (const panel of panels) if (!panel.contains(event.target)) panel.open = false;
  });
}
