// The API in Swagger UI, whose dark mode follows the colours that the system prefers.
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();

SwaggerUIBundle({
  dom_id: "#docs",
  url: document.getElementById("docs").dataset.url,
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  // Highlighting the response of 24 services takes a second and ten thousand elements.
  syntaxHighlight: false,
  validatorUrl: null,
});
