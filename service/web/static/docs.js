// The API in Swagger UI.
const { root } = document.documentElement.dataset;
const system = matchMedia("(prefers-color-scheme: dark)");

// The viewer has a theme of its own, which follows that of the page.
function paint() {
  const chosen = document.documentElement.dataset.theme;
  const dark = chosen === "auto" ? system.matches : chosen === "dark";
  document.documentElement.classList.toggle("dark-mode", dark);
}

system.addEventListener("change", paint);
new MutationObserver(paint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
paint();

SwaggerUIBundle({
  dom_id: "#docs",
  url: `${root}/openapi.json`,
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  // Colours take a second and ten thousand elements for an answer of 24 services.
  syntaxHighlight: false,
  validatorUrl: null,
});
