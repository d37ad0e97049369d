// The page of a service: copying of curl commands, and the way back to the list.
document.getElementById("results").addEventListener("click", async ({ target }) => {
  if (!target.matches(".curl button")) return;
  try {
    await navigator.clipboard.writeText(target.previousElementSibling.textContent);
    target.textContent = "Copied";
  } catch {
    // Without HTTPS or permission, select the command: one key press copies it.
    getSelection().selectAllChildren(target.previousElementSibling);
    target.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (target.textContent = "Copy"), 2000);
});

// From a list, lead back to its words and filters.
const back = document.querySelector(".back a");
if (document.referrer.split("?")[0] === back.href) back.href = document.referrer;
