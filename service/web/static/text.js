// Numbers, times and texts of the catalogue, in words.
import labels from "./networks.js";

const number = new Intl.NumberFormat("en");
const dollars = new Intl.NumberFormat("en", { style: "currency", currency: "USD" });
const small = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumSignificantDigits: 3 });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const units = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export const count = (value) => number.format(value);

export const counted = (value, noun) => `${count(value)} ${noun}${Number(value) === 1 ? "" : "s"}`;

// Millionths of a US dollar.
export const money = (millionths) =>
  (millionths && millionths < 10000 ? small : dollars).format(millionths / 1e6);

// Base units of a token, of which 10^decimals make one, without the rounding of floats.
export function units_of(amount, decimals) {
  const digits = String(amount).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const part = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return part ? `${whole}.${part}` : whole;
}

export function age(moment, now = Date.now()) {
  const seconds = (moment - now) / 1000;
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

// Overrides, embeddings and isolates reorder what stands around them; no name needs them.
export const plain = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "");

export function network(name) {
  const key = name.trim().toLowerCase().replace(/[ _]/g, "-");
  const known = key.startsWith("solana:") ? key.slice(0, 39) : key;
  return Object.hasOwn(labels, known) ? labels[known] : name;
}

// An address to link to, or nothing: a catalogue may say javascript: where a website should be.
export function website(address) {
  try {
    const url = new URL(address);
    return /^https?:$/.test(url.protocol) ? url : null;
  } catch {
    return null;
  }
}
