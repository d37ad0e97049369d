// The filters of the catalogue: at most one is open, until Escape, a click or the focus elsewhere.
const filters = [...document.querySelectorAll("details[name=filter]")];

addEventListener("keydown", (event) => {
  const open = filters.find((filter) => filter.open);
  if (event.key === "Escape" && open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
for (const leaving of ["pointerdown", "focusin"]) {
  addEventListener(leaving, (event) => {
    for (const filter of filters) if (!filter.contains(event.target)) filter.open = false;
  });
}
