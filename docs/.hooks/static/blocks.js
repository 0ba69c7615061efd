// Code can be copied: of a console block the commands alone. What scrolls can be reached by keys.
(() => {
  const commands = (code) => {
    const lines = code.textContent.trimEnd().split("\n");
    if (!lines.some((line) => line.startsWith("$ "))) return lines.join("\n");
    const goesOn = (k) => k > 0 && lines[k - 1].endsWith("\\") && (asks(k - 1) || goesOn(k - 1));
    const asks = (k) => lines[k].startsWith("$ ");
    const asked = lines.filter((_, k) => asks(k) || goesOn(k));
    return asked.map((line) => line.replace(/^\$ /, "")).join("\n");
  };
  for (const code of document.querySelectorAll(".highlight pre > code")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(commands(code));
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    });
    code.closest(".highlight").append(button);
  }
  const boxes = document.querySelectorAll("pre, .columns, .equation, .formula.long, .picture");
  const reach = new ResizeObserver((entries) => {
    for (const { target } of entries)
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
  });
  for (const box of boxes) reach.observe(box);
})();
