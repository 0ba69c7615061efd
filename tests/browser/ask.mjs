// Opens pages in headless Chromium, one after the other, and prints, as JSON, what an expression is in
// each, and every message of its console, uncaught error and request that failed; and the address of
// every request. It may take pictures of them, as WebP.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const asked = JSON.parse(readFileSync(process.argv[2], "utf8"));
const profile = mkdtempSync(join(tmpdir(), "chromium-"));
// Chromium ends when its pipe does, so it outlives nobody who is killed.
const browser = spawn(asked.browser, [
  "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
  "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank",
], { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
const [, , errors, commands, answers] = browser.stdio;
let complaints = "";
errors.on("data", (text) => (complaints += text));
let answered = false;
browser.on("exit", () => {
  if (!answered) console.error(`Chromium ended before it answered.\n${complaints}`);
  // What the browser started may still write there for a moment, or longer where much else runs.
  try {
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  } catch (error) {
    if (error.code !== "ENOTEMPTY") throw error;
  }
  process.exit(answered ? 0 : 1);
});
setTimeout(() => browser.kill(), 1000 * asked.seconds);

const waiting = new Map();
let events = [];
let requests = [];
let loaded;
function heard(message) {
  if (message.id) {
    waiting.get(message.id)(message);
    return;
  }
  if (message.method === "Page.loadEventFired") loaded();
  if (message.method === "Network.requestWillBeSent") requests.push(message.params.request.url);
  if (["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
       "Network.loadingFailed"].includes(message.method)) events.push(message);
}
let part = ""; // messages end with a zero
answers.setEncoding("utf8").on("data", (text) => {
  const whole = (part + text).split("\0");
  part = whole.pop();
  whole.forEach((message) => heard(JSON.parse(message)));
});
commands.on("error", () => {}); // it has ended, which is told above

let count = 0;
let sessionId;
function send(method, params = {}) {
  const id = ++count;
  commands.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((done, failed) => waiting.set(id, (answer) =>
    answer.error ? failed(new Error(`${method}: ${answer.error.message}`)) : done(answer.result)));
}

const { targetInfos } = await send("Target.getTargets");
const { targetId } = targetInfos.find((target) => target.type === "page");
sessionId = (await send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
if (asked.permissions.length) await send("Browser.grantPermissions", { permissions: asked.permissions });
await send("Emulation.setFocusEmulationEnabled", { enabled: true }); // in front: for the clipboard, and events
const found = [];
for (const visit of asked.visits) {
  [events, requests] = [[], []];
  await send("Emulation.setDeviceMetricsOverride",
    { width: visit.width, height: visit.height, deviceScaleFactor: 1, mobile: false });
  await send("Emulation.setEmulatedMedia",
    { features: [{ name: "prefers-color-scheme", value: visit.dark ? "dark" : "light" }] });
  const load = new Promise((done) => (loaded = done));
  await send("Page.navigate", { url: visit.page });
  await load;
  const { result, exceptionDetails } =
    await send("Runtime.evaluate", { expression: asked.expression, returnByValue: true, awaitPromise: true });
  if (visit.picture) {
    const { data } = await send("Page.captureScreenshot", { format: "webp", quality: 70 });
    writeFileSync(visit.picture, Buffer.from(data, "base64"));
  }
  found.push({ value: result.value, thrown: exceptionDetails ?? null, events, requests });
}
console.log(JSON.stringify(found));
answered = true;
browser.kill();
