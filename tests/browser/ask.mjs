// Opens a page in headless Chromium and prints, as JSON, what an expression is in it, and every
// message of its console, uncaught error and request that failed; and the address of every request.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const asked = JSON.parse(readFileSync(process.argv[2], "utf8"));
const profile = mkdtempSync(join(tmpdir(), "chromium-"));
const browser = spawn(asked.browser, [
  "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
  "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank",
]);

const address = await new Promise((found, failed) => {
  let said = "";
  browser.stderr.on("data", (text) => {
    said += text;
    const match = said.match(/DevTools listening on (ws:\S+)/);
    if (match) found(match[1]);
  });
  browser.on("exit", () => failed(new Error(said)));
});

const socket = new WebSocket(address);
await new Promise((open) => socket.addEventListener("open", open));
const waiting = new Map();
const events = [];
const requests = [];
let loaded;
const load = new Promise((done) => (loaded = done));
socket.addEventListener("message", ({ data }) => {
  const message = JSON.parse(data);
  if (message.id) {
    waiting.get(message.id)(message);
    return;
  }
  if (message.method === "Page.loadEventFired") loaded();
  if (message.method === "Network.requestWillBeSent") requests.push(message.params.request.url);
  if (["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
       "Network.loadingFailed"].includes(message.method)) events.push(message);
});

let count = 0;
let sessionId;
function send(method, params = {}) {
  const id = ++count;
  socket.send(JSON.stringify({ id, method, params, sessionId }));
  return new Promise((done, failed) => waiting.set(id, (answer) =>
    answer.error ? failed(new Error(`${method}: ${answer.error.message}`)) : done(answer.result)));
}

const { targetInfos } = await send("Target.getTargets");
const { targetId } = targetInfos.find((target) => target.type === "page");
sessionId = (await send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
await send("Emulation.setDeviceMetricsOverride",
  { width: asked.width, height: 900, deviceScaleFactor: 1, mobile: false });
await send("Emulation.setEmulatedMedia",
  { features: [{ name: "prefers-color-scheme", value: asked.dark ? "dark" : "light" }] });
await send("Page.navigate", { url: asked.page });
await load;
const { result, exceptionDetails } =
  await send("Runtime.evaluate", { expression: asked.expression, returnByValue: true, awaitPromise: true });
console.log(JSON.stringify({ value: result.value, thrown: exceptionDetails ?? null, events, requests }));
browser.removeAllListeners("exit");
browser.on("exit", () => {
  // What the browser started may still write there for a moment, or longer where much else runs.
  try {
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  } catch (error) {
    if (error.code !== "ENOTEMPTY") throw error;
  }
  process.exit(0);
});
browser.kill();
