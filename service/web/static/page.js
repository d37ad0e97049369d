// Follows links and forms of a page in place: fetches the document of the new address, and swaps the
// content of each element marked `data-part` that differs.

const TYPING = 120; // milliseconds without a key press before a search
const root = document.documentElement;
const region = document.querySelector("[aria-busy]");
const alert = document.getElementById("alert");
let request = new XMLHttpRequest();
let retry = null;
let typing;

// Fetches a document and passes it to `onLoad`, or shows an error whose button calls `onRetry`. Aborts
// an earlier request. XMLHttpRequest parses HTML without a sink of Trusted Types, unlike DOMParser.
function load(address, onLoad, onRetry) {
  request.abort();
  request = new XMLHttpRequest();
  request.open("GET", address);
  request.responseType = "document";
  request.setRequestHeader("Accept", "text/html");
  request.setRequestHeader("Cache-Control", "max-age=0"); // revalidate: snapshots must not be mixed
  request.onload = ({ target }) => {
    region.ariaBusy = "false";
    const fresh = target.response;
    const main = fresh?.getElementById("main");
    if (!main) {
      showAlert("Unexpected response.", `The response (status ${target.status}) is not a page of Ratecard.`, onRetry);
    } else if (target.status !== 200) {
      showAlert("The request failed.", main.querySelector("p").textContent, onRetry);
    } else {
      hideAlert();
      onLoad(fresh);
    }
  };
  request.onerror = () => {
    region.ariaBusy = "false";
    const earlier = "The page shows earlier results.";
    if (navigator.onLine) showAlert("No response.", `The service cannot be reached. ${earlier}`, onRetry);
    else showAlert("You are offline.", earlier, onRetry);
  };
  region.ariaBusy = "true";
  request.send();
}

// Shows the document of an address. `entry` is the kind of history entry: "typed", "chosen", or null
// for none. `restore` fills the forms from the document; `focus` is the id of the element to focus.
function visit(address, entry, { restore = false, focus = null } = {}) {
  clearTimeout(typing);
  const repeat = () => visit(address, entry, { restore, focus });
  load(address, (fresh) => {
    const isRebuilt = fresh.documentElement.dataset.snapshot !== root.dataset.snapshot;
    const first = firstPage(address);
    if (scripts(fresh) !== scripts(document)) {
      location.assign(address); // another release, whose markup these scripts may not know
    } else if (isRebuilt && first.href !== new URL(address, location).href) {
      visit(first.href, entry, { restore, focus }); // an offset into the old snapshot means nothing
    } else {
      swap(fresh, restore);
      if (isRebuilt) document.querySelector("[role=status]").append(", from a catalogue rebuilt just now");
      if (entry) enterHistory(fresh.querySelector("link[rel=canonical]").getAttribute("href"), entry);
      if (focus) moveTo(document.getElementById(focus));
    }
  }, repeat);
}

const scripts = (page) => [...page.scripts].map((script) => script.src).join();

function firstPage(address) {
  const url = new URL(address, location);
  for (const name of ["offset", "page"]) url.searchParams.delete(name);
  return url;
}

function swap(fresh, restore) {
  const focused = document.activeElement;
  showAges(fresh);
  if (restore) {
    for (const form of document.forms) {
      form.reset();
      form.elements.q.value = fresh.getElementById("q")?.value ?? "";
    }
  }
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.getElementById(part.id);
    if (!part.isEqualNode(other)) part.replaceChildren(...other.childNodes);
  }
  if (!focused.isConnected) equivalent(focused)?.focus({ preventScroll: true });
  document.title = fresh.title;
  root.dataset.snapshot = fresh.documentElement.dataset.snapshot;
}

function moveTo(element) {
  element.focus({ preventScroll: true });
  if (element.getBoundingClientRect().top < 0) element.scrollIntoView();
}

// Returns the element that replaces one that was swapped out.
function equivalent(element) {
  const same = (other) => ["name", "value", "href"].every((name) => other[name] === element[name]);
  return [...document.querySelectorAll(element.localName)].find(same);
}

// Continued typing makes one history entry; an unchanged address makes none.
function enterHistory(address, entry) {
  const isSame = address === location.pathname + location.search;
  const isContinued = entry === "typed" && history.state === "typed";
  history[isSame || isContinued ? "replaceState" : "pushState"](entry, "", address);
}

function showAlert(title, message, onRetry) {
  alert.querySelector("strong").textContent = title;
  alert.querySelector("span").textContent = message;
  alert.hidden = false;
  retry = onRetry;
}

function hideAlert() {
  if (alert.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
  alert.hidden = true;
  retry = null;
}

alert.querySelector("button").addEventListener("click", () => retry());
addEventListener("online", () => retry?.());
addEventListener("popstate", () => visit(location.href, null, { restore: true }));

addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const isModified = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
  const isSamePage = link?.origin === location.origin && link.pathname === location.pathname;
  if (!isSamePage || link.hash || isModified) return;
  event.preventDefault();
  visit(link.href, "chosen", { restore: true, focus: link.closest("[data-focus]")?.dataset.focus });
});

for (const form of document.forms) {
  const send = (entry) => visit(`${form.action}?${new URLSearchParams(new FormData(form))}`, entry);
  form.addEventListener("input", ({ target }) => {
    if (target !== form.elements.q) return;
    clearTimeout(typing);
    typing = setTimeout(send, TYPING, "typed");
  });
  form.addEventListener("change", ({ target }) => target !== form.elements.q && send("chosen"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send("chosen");
  });
}

// Ages of times, updated while the page is open.
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function showAges(page) {
  for (const time of page.querySelectorAll("time[data-age]")) {
    const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
    time.textContent = relative.format(Math.trunc(seconds / size), unit);
  }
}

setInterval(showAges, 30_000, document);
showAges(document);
