// Code can be copied: of a console block the commands alone. What scrolls can be reached by keys.
(() => {
  const commands = (code) => {
    const lines = code.textContent.trimEnd().split("\n");
    const asked = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    return (asked.length ? asked : lines).join("\n");
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
