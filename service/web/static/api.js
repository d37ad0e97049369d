// The public API, as the page asks it.

export const root = document.documentElement.dataset.root;

export class Trouble extends Error {
  constructor(title, message) {
    super(message);
    this.title = title;
  }
}

// Resolves to the answer and the snapshot that it is from; rejects with a Trouble, or an AbortError.
export async function ask(path, params = "", signal = undefined) {
  let response;
  try {
    // What the browser kept is asked for again (mostly a 304), as a mix of two snapshots confuses.
    response = await fetch(`${root}${path}?${params}`, { signal, cache: "no-cache" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw navigator.onLine
      ? new Trouble("No answer.", "The service cannot be reached; what you see is from before.")
      : new Trouble("You are offline.", "What you see is from before.");
  }
  const snapshot = response.headers.get("Ratecard-Snapshot");
  let answer;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("No answer.", `What came back (status ${response.status}) is not from Ratecard.`);
  }
  if (!response.ok) {
    throw new Trouble("That did not work.", answer?.error?.message ?? `The answer has status ${response.status}.`);
  }
  return { answer, snapshot };
}

// Says what went wrong, and tries again when asked to, or when the network is back.
const alert = document.getElementById("trouble");
const troubles = new Map(); // of each part of the page that has one

export function complain(part, trouble, again) {
  troubles.set(part, again);
  alert.querySelector("[data-slot=title]").textContent = trouble.title ?? "That is a bug.";
  alert.querySelector("[data-slot=message]").textContent = trouble.message;
  alert.hidden = false;
}

export function calm(part) {
  troubles.delete(part);
  if (troubles.size) return;
  if (alert.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
  alert.hidden = true;
}

function retry() {
  for (const again of troubles.values()) again();
}

alert.querySelector("button").addEventListener("click", retry);
addEventListener("online", retry);
