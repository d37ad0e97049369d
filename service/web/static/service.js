// Copies curl commands, and links back to the list that led to the service.
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

// Keep the words and filters of the list in the link back to it.
const back = document.querySelector(".back a");
const [list] = document.referrer.split("?");
if (list === `${back.href}endpoints`) back.textContent = "← All endpoints";
if ([back.href, `${back.href}endpoints`].includes(list)) back.href = document.referrer;

// Open the endpoint that the address names.
const endpoint = document.getElementById(location.hash.slice(1));
if (endpoint?.matches(".endpoint")) endpoint.open = true;
