// Closes the open filter on Escape, and when a click or the focus goes elsewhere.
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
