// The ecosystem: totals and days of a timeframe, and the latest payments.
import { ask, calm, complain } from "./api.js";
import { chart } from "./chart.js";
import { copy_of, fill } from "./slots.js";
import { age, count, money, network, plain, units_of } from "./text.js";

const PAYMENTS = 12;
const links = [...document.getElementById("timeframes").children];
const [newer, older] = [document.getElementById("newer"), document.getElementById("older")];
const totals = document.getElementById("totals");
const payments = document.getElementById("payments");
const day = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });
const hour = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hour12: false, timeZone: "UTC" });
let snapshot = document.documentElement.dataset.snapshot;
let page = 0;

function timeframe() {
  const asked = Number(new URLSearchParams(location.search).get("timeframe"));
  return links.some((link) => Number(link.dataset.days) === asked) ? asked : 30;
}

async function load() {
  const days = timeframe();
  for (const link of links) {
    if (Number(link.dataset.days) === days) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  totals.ariaBusy = "true";
  try {
    const [overview, stats] = await Promise.all([
      ask("/v1/ecosystem/overview", `timeframe=${days}`),
      ask("/v1/ecosystem/stats", `timeframe=${days}`),
    ]);
    if (days !== timeframe()) return; // another was chosen meanwhile
    calm("totals");
    drawTotals(overview.answer.overview.json);
    drawDays(stats.answer.stats.json, days);
  } catch (trouble) {
    complain("totals", trouble, load);
  }
  totals.ariaBusy = "false";
}

function drawTotals(overview) {
  fill(totals, {
    total_transactions: count(overview.total_transactions),
    total_amount: money(overview.total_amount),
    unique_buyers: count(overview.unique_buyers),
    unique_sellers: count(overview.unique_sellers),
  });
  const newest = overview.latest_block_timestamp;
  document.getElementById("until").textContent = newest
    ? `Newest payment: ${age(Date.parse(newest))}`
    : "No payments were indexed";
}

function drawDays(buckets, days) {
  const name = (bucket) => (days === 1 ? hour : day).format(Date.parse(bucket.bucket_start));
  const draw = (figure, value, written) => {
    const bars = buckets.map((bucket) => ({
      label: name(bucket), value: value(bucket), title: `${name(bucket)}: ${written(value(bucket))}`,
    }));
    const most = bars.reduce((best, bar) => (bar.value > best.value ? bar : best), bars[0]);
    const unit = days === 1 ? "hour" : "day";
    const title = document.querySelector(`#${figure} figcaption`).textContent;
    const summary = most && `${title} by ${unit}, ${bars[0].label} to ${bars.at(-1).label}; most on ${most.title}`;
    if (most) chart(document.querySelector(`#${figure} .plot`), bars, written, summary);
  };
  document.getElementById("days-title").textContent = days === 1 ? "By hour" : "By day";
  draw("payments-chart", (bucket) => bucket.total_transactions, (value) => count(value));
  draw("amount-chart", (bucket) => bucket.total_amount / 1e6, (value) => money(value * 1e6));
  document.getElementById("days").replaceChildren(...[...buckets].reverse().map((bucket) => row(name(bucket), bucket)));
}

function row(name, bucket) {
  const element = document.createElement("tr");
  const heading = document.createElement("th");
  heading.scope = "row";
  heading.textContent = name;
  const cells = [
    count(bucket.total_transactions), money(bucket.total_amount), count(bucket.unique_buyers), count(bucket.unique_sellers),
  ].map((text) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  });
  element.append(heading, ...cells);
  return element;
}

async function loadPayments() {
  payments.ariaBusy = "true";
  try {
    const found = await ask("/v1/ecosystem/transactions", `page=${page}&limit=${PAYMENTS}`);
    const rebuilt = found.snapshot !== snapshot;
    snapshot = found.snapshot;
    if (rebuilt && page) {
      // Pages of two snapshots do not fit together, so this starts again.
      page = 0;
      await Promise.all([load(), loadPayments()]);
      return;
    }
    calm("payments");
    const { items, hasNextPage } = found.answer.transactions.json;
    payments.replaceChildren(...items.map(payment));
    newer.hidden = page === 0;
    older.hidden = !hasNextPage;
    document.getElementById("none").hidden = items.length > 0 || page > 0;
  } catch (trouble) {
    complain("payments", trouble, loadPayments);
  }
  payments.ariaBusy = "false";
}

function payment(paid) {
  const moment = Date.parse(paid.block_timestamp);
  const element = fill(copy_of("payment"), {
    amount: units_of(paid.amount, paid.decimals),
    provider: plain(paid.provider ?? ""),
    parties: `${short(paid.sender)} → ${short(paid.recipient)}`,
    chain: plain(network(paid.chain)),
    age: age(moment),
  });
  const time = element.querySelector("time");
  time.dateTime = paid.block_timestamp;
  time.title = paid.block_timestamp;
  return element;
}

const short = (address) => {
  const text = plain(address);
  return text.length > 14 ? `${text.slice(0, 6)}…${text.slice(-4)}` : text;
};

// Ages go on while the page is open.
setInterval(() => {
  for (const time of payments.querySelectorAll("time")) time.textContent = age(Date.parse(time.dateTime));
}, 30_000);

document.getElementById("timeframes").addEventListener("click", (event) => {
  if (!event.target.href || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", event.target.href);
  void load();
});
for (const [button, step] of [[newer, -1], [older, 1]]) {
  button.addEventListener("click", async () => {
    page += step;
    await loadPayments();
    payments.scrollIntoView({ block: "nearest" });
    if (button.hidden) (step > 0 ? newer : older).focus();
  });
}
addEventListener("popstate", () => void load());
void load();
void loadPayments();
