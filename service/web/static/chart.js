// A bar chart as plain SVG.
const SVG = "http://www.w3.org/2000/svg";
const [HEIGHT, LEFT, BOTTOM, TOP, LABEL] = [176, 56, 24, 10, 64];

// Fills a plot, now and whenever its width changes. `bars` are { label, value, title }, at least
// one; `written` writes a value of the scale.
export function chart(plot, bars, written, summary) {
  widths.unobserve(plot);
  drawings.set(plot, () => plot.replaceChildren(drawn(plot.clientWidth, bars, written, summary)));
  widths.observe(plot);
}

const drawings = new WeakMap();
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) drawings.get(target)();
});

function drawn(width, bars, written, summary) {
  const svg = element("svg", { width, height: HEIGHT, role: "img", "aria-label": summary });
  const most = nice(Math.max(...bars.map((bar) => bar.value), 0));
  const height = HEIGHT - TOP - BOTTOM;
  for (const share of [0, 0.5, 1]) {
    const y = TOP + height * (1 - share);
    svg.append(element("line", { x1: LEFT, x2: width, y1: y, y2: y, class: "grid" }));
    svg.append(text(written(most * share), { x: LEFT - 8, y: y + 4, "text-anchor": "end" }));
  }
  const step = (width - LEFT) / bars.length;
  const every = Math.ceil(LABEL / step);
  bars.forEach((bar, place) => {
    const tall = (height * bar.value) / most;
    const x = LEFT + step * place;
    const rectangle = element("rect", {
      x: x + step * 0.12, y: HEIGHT - BOTTOM - tall, width: step * 0.76, height: tall, rx: Math.min(2, step / 6),
    });
    // The whole column can be pointed at, as some bars are too low to hit.
    const column = element("g", { class: "bar" });
    const title = element("title");
    title.textContent = bar.title;
    column.append(element("rect", { x, y: TOP, width: step, height, class: "column" }), rectangle, title);
    svg.append(column);
    const middle = x + step / 2;
    if (place % every === 0 && middle + LABEL / 2 < width) {
      svg.append(text(bar.label, { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }));
    }
  });
  return svg;
}

// The next of 1, 2, 5, 10, 20, …: a scale whose half is as easy to read.
function nice(value) {
  if (!value) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].map((factor) => factor * power).find((size) => size >= value);
}

function text(content, attributes) {
  const label = element("text", attributes);
  label.textContent = content;
  return label;
}

function element(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}
