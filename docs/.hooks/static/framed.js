// In an embedded page: light or dark as the site is, and its height for the frame around it.
(() => {
  if (window === window.parent) return;
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
    const place = data.at && document.getElementById(data.at);
    if (place) scrollTo(0, place.getBoundingClientRect().top + scrollY); // the frame alone
  });
  addEventListener("load", () => {
    const tell = () => parent.postMessage({ height: document.body.scrollHeight }, "*");
    parent.postMessage({ opened: true }, "*");
    new ResizeObserver(tell).observe(document.body);
  });
})();
