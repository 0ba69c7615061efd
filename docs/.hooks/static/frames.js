// In a page of the site: its frames are told whether it is light or dark, and are no higher than
// what they show. Messages work from a disk too, where a frame is of another origin.
(() => {
  const frames = [...document.querySelectorAll(".embedded iframe")];
  if (!frames.length) return;
  const scheme = () => (document.body.dataset.mdColorScheme === "slate" ? "dark" : "light");
  const tell = (frame, more) => {
    frame.name = scheme();
    frame.contentWindow?.postMessage({ scheme: scheme(), ...more }, "*");
  };
  addEventListener("message", ({ data, source }) => {
    const frame = frames.find((f) => f.contentWindow === source);
    if (!frame) return;
    if (data.opened) tell(frame, { at: frame.dataset.at });
    if (data.height) frame.style.height = `min(${frame.dataset.height}, ${data.height + 2}px)`;
  });
  for (const frame of frames) tell(frame);
  new MutationObserver(() => frames.forEach((f) => tell(f))).observe(document.body, {
    attributeFilter: ["data-md-color-scheme"],
  });
})();
