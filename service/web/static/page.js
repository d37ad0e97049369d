// Submits forms on a choice, closes filters, copies commands, and shows ages of times. Pages
// work without it.
const find = (selector) => [...document.querySelectorAll(selector)];

// The address after a choice names the changed control, which has the focus again. Its fragment is
// no id: the browser would move the focus from the control to the element with that id.
for (const form of document.forms) {
  const action = form.action;
  form.addEventListener("change", ({ target }) => {
    if (["search", "url"].includes(target.type)) return;
    form.action = `${action}#at-${target.closest("[id]").id}`;
    form.requestSubmit();
  });
  form.addEventListener("formdata", ({ formData }) => {
    for (const name of ["q", "maxPrice"]) if (!formData.get(name)) formData.delete(name);
  });
}
const changed = document.getElementById(location.hash.replace("#at-", ""));
if (changed) {
  const panel = changed.closest("details");
  if (panel) panel.open = true;
  (changed.querySelector("input:checked") ?? changed.querySelector("input") ?? changed).focus();
}

// Open the endpoint that the address names.
const endpoint = document.getElementById(location.hash.slice(1));
if (endpoint?.matches(".endpoint")) endpoint.open = true;

// An open filter closes on Escape, and when a click or the focus goes elsewhere.
const filters = find("details[name=filter]");
addEventListener("keydown", (event) => {
  const open = filters.find((filter) => filter.open);
  if (event.key === "Escape" && open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
for (const leaving of ["pointerdown", "focusin"]) {
  addEventListener(leaving, (event) => {
    for (const filter of filters) if (!filter.contains(event.target)) filter.open = false;
  });
}

for (const button of find(":is(.curl, .code) button")) {
  button.addEventListener("click", async () => {
    const command = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    } catch {
      // Without HTTPS or permission, select the command: one key press copies it.
      getSelection().selectAllChildren(command);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}

// Keep the words and filters of the list in the link back to it.
for (const back of find(".back a")) {
  const [list] = document.referrer.split("?");
  if (list === `${back.href}endpoints`) back.textContent = "← All endpoints";
  if ([back.href, `${back.href}endpoints`].includes(list)) back.href = document.referrer;
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
for (const time of find("time[data-age]")) {
  const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  time.textContent = relative.format(Math.trunc(seconds / size), unit);
}
