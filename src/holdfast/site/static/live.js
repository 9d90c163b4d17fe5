"use strict";
// While the pages are served: says when the store has new runs, and lets the reader decide when to see them.
(() => {
  const { root, stamp } = document.currentScript.dataset;
  const offer = () => {
    if (document.getElementById("updated")) return;
    const bar = document.createElement("div");
    const button = document.createElement("button");
    bar.id = "updated";
    bar.setAttribute("role", "status");
    button.type = "button";
    button.textContent = "Show it";
    button.addEventListener("click", () => location.reload());
    bar.append("Updated: the store has new results.", button);
    document.body.append(bar);
  };
  const look = async () => {
    try {
      const answer = await fetch(`${root}build.json`, { cache: "no-store" });
      if (answer.ok && (await answer.json()).stamp !== stamp) return offer();
    } catch {
      // the server stopped: the page stays as it is
    }
    setTimeout(look, 3000);
  };
  setTimeout(look, 3000);
})();
