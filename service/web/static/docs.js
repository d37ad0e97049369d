// The API in Swagger UI.
const { root } = document.documentElement.dataset;
const system = matchMedia("(prefers-color-scheme: dark)");

// Swagger UI has a dark mode of its own, which follows the theme of the page.
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
  // Highlighting the response of 24 services takes a second and ten thousand elements.
  syntaxHighlight: false,
  validatorUrl: null,
});
