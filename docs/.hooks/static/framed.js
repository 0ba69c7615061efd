// In an embedded page: light or dark as the site is, its height for the frame around it, and the
// place where it begins, which stays at the top while fonts and columns settle above it.
(() => {
  if (window === window.parent) return;
  let place = null;
  const begin = () => // the frame alone, and at once
    place && scrollTo({ top: place.getBoundingClientRect().top + scrollY, behavior: "instant" });
  const dark = new Set();
  const look = (scheme) => {
    if (!["light", "dark"].includes(scheme)) return;
    document.documentElement.style.colorScheme = scheme;
    for (const sheet of document.styleSheets)
      for (const rule of sheet.cssRules)
        if (rule.media?.mediaText.includes("prefers-color-scheme")) dark.add(rule);
    for (const rule of dark) rule.media.mediaText = scheme === "dark" ? "screen" : "not all";
  };
  look(window.name);
  addEventListener("message", ({ data, source }) => {
    if (source !== window.parent) return;
    look(data.scheme);
    if (data.at) place = document.getElementById(data.at);
    begin();
  });
  for (const moved of ["wheel", "touchstart", "pointerdown", "keydown"])
    addEventListener(moved, () => (place = null), { passive: true });
  addEventListener("load", () => {
    const tell = () => parent.postMessage({ height: document.body.scrollHeight }, "*");
    parent.postMessage({ opened: true }, "*");
    new ResizeObserver(() => { tell(); begin(); }).observe(document.body);
  });
})();
