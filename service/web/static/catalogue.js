// The catalogue: searches as one types, narrows, sorts and turns pages, in place.
import { ask, calm, complain, root } from "./api.js";
import { card } from "./card.js";
import { refresh, show, wanted } from "./filters.js";
import { count, counted } from "./text.js";

const PAGE = 24;
const TYPING = 120; // milliseconds of rest before a search
const form = document.getElementById("search");
const results = document.getElementById("results");
const status = document.getElementById("count");
const pages = document.getElementById("pages");
let snapshot = document.documentElement.dataset.snapshot;
let running = new AbortController();
let typing;

// `enter` says how the address enters the history: as "typed", as "chosen", or not at all.
async function load(params, enter) {
  clearTimeout(typing);
  running.abort();
  running = new AbortController();
  const { signal } = running;
  results.ariaBusy = "true";
  const offset = Number(params.get("offset") ?? 0);
  const asked = new URLSearchParams([...params, ["limit", PAGE], ["endpoints", "none"]]);
  try {
    const found = await ask(path(params), asked, signal);
    calm("results");
    const rebuilt = found.snapshot !== snapshot;
    if (rebuilt && offset) {
      // Pages of two snapshots do not fit together, so this starts again.
      params.delete("offset");
      await load(params, enter);
      return;
    }
    draw(found.answer, offset, rebuilt);
    snapshot = found.snapshot;
    refresh(params);
    enterHistory(params, enter);
  } catch (trouble) {
    if (trouble.name === "AbortError") return;
    complain("results", trouble, () => load(params, enter));
  } finally {
    if (!signal.aborted) results.ariaBusy = "false";
  }
}

function draw({ services, total }, offset, rebuilt) {
  results.replaceChildren(...services.map(card));
  document.getElementById("nothing").hidden = services.length > 0;
  const last = offset + services.length;
  const range = `${count(offset + 1)}–${count(last)} of ${counted(total, "service")}`;
  status.textContent = (services.length ? range : "No services") + (rebuilt ? ", from a catalogue rebuilt just now" : "");
  const [previous, next] = pages.children;
  previous.hidden = offset === 0;
  next.hidden = last >= total;
}

function enterHistory(params, enter) {
  // What is typed on and on is one entry, and what was there already is no other.
  const same = address(params) === location.pathname + location.search;
  const typedOn = enter === "typed" && history.state === "typed";
  if (enter) history[same || typedOn ? "replaceState" : "pushState"](enter, "", address(params));
  document.title = `${params.get("q") || "Web APIs that are paid by the request"} · Ratecard`;
  document.getElementById("json").href = `${root}${path(params)}?${params}`;
  const [previous, next] = pages.children;
  const offset = Number(params.get("offset") ?? 0);
  previous.href = address(turned(params, Math.max(0, offset - PAGE)));
  next.href = address(turned(params, offset + PAGE));
}

function turned(params, offset) {
  const other = new URLSearchParams(params);
  if (offset) other.set("offset", offset);
  else other.delete("offset");
  return other;
}

const path = (params) => (params.has("q") ? "/v1/search/services" : "/v1/services");
const address = (params) => `${root}/${params.size ? `?${params}` : ""}`;
const here = () => new URLSearchParams(location.search);

form.elements.q.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => load(wanted(), "typed"), TYPING);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void load(wanted(), "chosen");
});
form.addEventListener("change", (event) => {
  if (event.target !== form.elements.q) void load(wanted(), "chosen");
});
pages.addEventListener("click", async (event) => {
  if (!event.target.href || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  await load(new URL(event.target.href).searchParams, "chosen");
  results.focus({ preventScroll: true });
  form.scrollIntoView();
});
addEventListener("popstate", () => {
  show(here());
  void load(here());
});

show(here());
