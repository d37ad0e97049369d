// A card: what the page shows of a service at first sight. `service/card.py` makes the same.
import { root } from "./api.js";
import { copy_of, fill } from "./slots.js";
import { counted, network, plain } from "./text.js";

export function card(service) {
  const price = service.priceSummary;
  const calls = service.quality?.totalCalls;
  const element = fill(copy_of("card"), {
    name: plain(service.name),
    provider: plain(service.provider || service.domain || ""),
    category: plain(service.category || ""),
    networks: plain([...new Set((service.networks ?? []).map(network))].join(", ")),
    curated: service.enriched ? "Curated" : "",
    price: price ? range(price) : "no fixed price",
    currency: price ? plain(price.currency) : "",
    description: plain(service.description),
    calls: calls == null ? "" : counted(calls, "call"),
    endpoints: counted(service.endpointCount, "endpoint"),
  });
  element.querySelector("a").href = `${root}/services/${encodeURIComponent(service.id)}`;
  return element;
}

const range = ({ minAmount, maxAmount }) =>
  minAmount === maxAmount ? minAmount : `${minAmount} – ${maxAmount}`;
