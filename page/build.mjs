// Bundles src/ into viete/explore/static/page.js (an iife that defines the global `vietePage`, and an
// ES module beside it) and page.css. A hash of the sources stands in the first line of each, so that
// a test finds a stale bundle without Node (tests/explore/test_bundle.py).
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build, transform } from "esbuild";

const HERE = new URL(".", import.meta.url);
const STATIC = new URL("../viete/explore/static/", HERE);

const names = readdirSync(new URL("src/", HERE)).sort();
const sources = names.map((name) => [`src/${name}`, readFileSync(new URL(`src/${name}`, HERE))]);
const lock = readFileSync(new URL("package-lock.json", HERE));
const hash = createHash("sha256");
for (const [name, text] of [...sources, ["package-lock.json", lock]]) {
  hash.update(`${name}\0${text.length}\0`).update(text);
}
const banner = `/* Built by make page from page/src; sources ${hash.digest("hex")}. Do not edit. */`;

const shared = {
  absWorkingDir: new URL(".", HERE).pathname,
  entryPoints: ["src/index.js"],
  bundle: true,
  minify: true,
  charset: "utf8",
  target: "es2022",
  legalComments: "none",
};
await build({ ...shared, format: "iife", globalName: "vietePage", banner: { js: banner },
  outfile: new URL("page.js", STATIC).pathname });
await build({ ...shared, format: "esm", banner: { js: banner },
  outfile: new URL("page.esm.js", STATIC).pathname });

// The colours are those of the design sheet, which viete/explore/page_file.py puts before this.
const layout = readFileSync(new URL("src/layout.css", HERE), "utf8");
const css = await transform(layout, { loader: "css", minify: true, charset: "utf8" });
writeFileSync(new URL("page.css", STATIC), `${banner}\n${css.code}`);
