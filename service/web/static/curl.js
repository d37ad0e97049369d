// An endpoint as a curl command that is safe to paste: whatever the catalogue says is quoted.
import { website } from "./text.js";

// Resolves placeholders and fills in what is required; nothing for an address that is not http(s).
export function curl(endpoint) {
  const parameters = endpoint.parameters ?? [];
  const of = (group) => parameters.filter((parameter) => parameter.group === group);
  const url = website(resolved(endpoint.url, of("path")));
  if (!url) return "";
  for (const parameter of of("query").filter((each) => each.required)) {
    if (!url.searchParams.has(parameter.name)) url.searchParams.set(parameter.name, in_address(parameter));
  }
  const body = of("body");
  const method = /[a-z]+/i.exec(endpoint.method)?.[0].toUpperCase();
  const words = ["curl", "-i"];
  if (/[[\]{}]/.test(url.href)) words.push("--globoff");
  if (method && method !== (body.length ? "POST" : "GET")) words.push("-X", method);
  words.push(quoted(url.href));
  if (!body.length) return words.join(" ");
  const needed = body.some((each) => each.required) ? body.filter((each) => each.required) : body;
  const json = JSON.stringify(Object.fromEntries(needed.map((each) => [each.name, example(each)])));
  return `${words.join(" ")} \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(visible(json))}`;
}

export function example(parameter) {
  const given = [parameter.example, parameter.default, parameter.enumValues?.[0]];
  return given.find((value) => value !== undefined && value !== null && value !== "") ?? BY_TYPE[parameter.type];
}

const BY_TYPE = { string: "…", number: 1, boolean: true, array: [], object: {} };

const in_address = (parameter) => {
  const value = example(parameter);
  return Array.isArray(value) ? value.join(",") : typeof value === "object" ? JSON.stringify(value) : String(value);
};

function resolved(address, parameters) {
  const [, origin, path] = /^([a-z]+:\/\/[^/?#]*)?(.*)$/is.exec(address);
  return (origin ?? "") + path.replace(/\{(\w+)\}|(?<=\/):([A-Za-z_]\w*)/g, (placeholder, braced, named) => {
    const parameter = parameters.find((each) => each.name === (braced ?? named));
    return parameter ? encodeURIComponent(in_address(parameter)) : placeholder;
  });
}

// What a terminal or an eye could take for something else is written as JSON escapes.
const visible = (json) =>
  json.replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (character) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

const quoted = (word) => `'${word.replaceAll("'", "'\\''")}'`;
