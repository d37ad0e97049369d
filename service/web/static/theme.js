// Not a module: it must run before the first paint, or a chosen theme would flash.
const themes = { auto: "light dark", light: "light", dark: "dark" };
const use = (theme) => {
  document.documentElement.style.colorScheme = themes[theme];
  document.documentElement.dataset.theme = theme;
};
const stored = () => {
  try {
    const theme = localStorage.getItem("theme");
    return theme in themes ? theme : "auto";
  } catch {
    return "auto"; // the browser may forbid storage
  }
};

use(stored());

addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const show = (theme) => {
    button.textContent = `Theme: ${theme}`;
  };
  show(stored());
  button.hidden = false;
  button.addEventListener("click", () => {
    const names = Object.keys(themes);
    const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
    use(next);
    show(next);
    try {
      localStorage.setItem("theme", next);
    } catch {
      // the theme lasts until the page is left
    }
  });
});
