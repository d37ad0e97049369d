// One service: its endpoints with prices, parameters and a curl line each.
import { ask, calm, complain } from "./api.js";
import { curl } from "./curl.js";
import { copy_of, fill } from "./slots.js";
import { age, count, counted, network, plain } from "./text.js";

const AT_ONCE = 50;
const article = document.getElementById("service");
const list = document.getElementById("endpoints");
const more = document.getElementById("more");
const shown = document.getElementById("shown");
const find = document.getElementById("find");
let endpoints = [];
let matching = [];

async function load() {
  try {
    const { answer } = await ask(`/v1/services/${encodeURIComponent(article.dataset.id)}`);
    calm("service");
    draw(answer.service);
  } catch (trouble) {
    complain("service", trouble, load);
  }
  list.ariaBusy = "false";
}

function draw(service) {
  endpoints = service.endpoints;
  find.hidden = endpoints.length <= 12;
  narrow("");
  const first = list.querySelector("details");
  if (first) first.open = true;
}

function narrow(words) {
  const wanted = words.toLowerCase().split(/\s+/);
  matching = endpoints.filter((endpoint) => {
    const text = `${endpoint.method} ${endpoint.url} ${endpoint.description ?? ""}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
  list.replaceChildren();
  show();
}

function show() {
  const start = list.childElementCount;
  const next = matching.slice(start, start + AT_ONCE).map(endpoint);
  list.append(...next);
  const left = matching.length - list.childElementCount;
  more.hidden = left === 0;
  more.textContent = `Show ${Math.min(left, AT_ONCE)} more of ${count(left)}`;
  const found = `${counted(matching.length, "endpoint")}, ${count(list.childElementCount)} shown`;
  shown.textContent = matching.length ? found : "No endpoint has these words";
  shown.classList.toggle("hidden-visually", matching.length > 0);
  return next[0];
}

function endpoint(described) {
  const { url, method, pricing, parameters = [], quality, description = "" } = described;
  const { host, path } = parts(plain(url));
  const calls = quality?.l30DaysTotalCalls;
  const command = curl(described);
  const element = fill(copy_of("endpoint"), {
    method: plain(method) || "GET",
    path: path,
    price: price(pricing),
    currency: pricing.amount || pricing.maxAmount ? plain(pricing.currency) : "",
    description: plain(description),
    terms: terms(pricing, host),
    networks: pricing.network ? plain(network(pricing.network)) : "",
    calls: calls == null ? "" : `${counted(calls, "call")} in 30 days`,
    curl: command,
  });
  element.querySelector(".parameters").append(...parameters.map(parameter));
  const copy = element.querySelector(".curl button");
  copy.parentElement.hidden = !command;
  copy.addEventListener("click", () => copied(copy, command));
  return element;
}

function parameter({ name, group, type, required, description = "", example, enumValues = [], default: usual }) {
  const shown = (title, value) => (value == null || value === "" ? "" : `${title} ${plain(JSON.stringify(value))}`);
  return fill(copy_of("parameter"), {
    name: plain(name),
    where: `${type} in ${group}`,
    required: required ? "required" : "",
    description: plain(description),
    example: shown("e.g.", example),
    values: enumValues?.length ? `one of ${plain(enumValues.map((value) => JSON.stringify(value)).join(", "))}` : "",
    default: shown("default", usual),
  });
}

const parts = (url) => {
  const [, host, path] = /^(?:[a-z]+:\/\/)?([^/?#]*)(.*)$/is.exec(url);
  return path ? { host, path } : { host: "", path: host };
};

const price = ({ amount, minAmount, maxAmount }) =>
  amount || (maxAmount ? `${minAmount || "0"} – ${maxAmount}` : "no fixed price");

function terms({ scheme, maxAmount, amount }, host) {
  const most = scheme === "upto" && maxAmount && amount ? `, at most ${maxAmount}` : "";
  return plain([host, scheme ? scheme + most : ""].filter(Boolean).join(" · "));
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Without https, or permission: select it, so that one key copies it.
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

more.addEventListener("click", () => show()?.querySelector("summary").focus());
find.addEventListener("input", (event) => narrow(event.target.value));
// Who came from the list goes back to the same words and filters.
const back = document.querySelector(".back a");
if (document.referrer.split("?")[0] === back.href) back.href = document.referrer;
for (const time of article.querySelectorAll("time")) time.textContent = age(Date.parse(time.dateTime));
void load();
