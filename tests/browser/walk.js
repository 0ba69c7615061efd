let state = SEED * 7919;
const below = (n) => (state = (state * 1103515245 + 12345) % 2147483648, Math.floor((state / 2147483648) * n));
const some = (list) => list[below(list.length)];
const shown = (e) => e.getClientRects().length > 0;
const settle = async () => { for (let k = 0; k < 3; k++) await soon(); };
const note = () => one(".v-note").textContent;
const fire = (input, value) => {
  if (typeof value === "boolean") input.checked = value;
  else input.value = value;
  input.dispatchEvent(new Event("change", { bubbles: true }));
};
const numbers = async (member) => {
  if (!main() || main().dataset.member !== member) return null;
  if (main().classList.contains("absent")) return null;
  main().querySelector("header [data-name=numbers]")?.click();
  if (!main().querySelector("table.matrix")) return undefined; // too large for numbers
  return cells();
};
const rows = () => all(".v-register tbody tr").map((r) => r.dataset.member);
const direction = (name) => one(`.switches [data-name=${name}]`)?.click();
const decimal = () => one(".switches [data-name=decimal]")?.click();
const parameters = all(".v-symbols tr.parameter, .v-symbols tr[data-kind=parameter]").map((r) => r.dataset.key);
const symbol = (key) => one(`.v-symbols tr[data-key="${CSS.escape(key)}"] button`).click();

let expected = { ids: null, weights: {}, choices: {}, put: [] };
const weightsOf = async () => {
  const found = {};
  for (const key of parameters) { symbol(key); const x = await numbers(key); if (x) found[key] = x; }
  return found;
};
const ids = () => all(".tokens li").map((li) => Number(li.querySelector("small")?.textContent ?? li.querySelector("b").textContent));
const names = one(".edit-tokens input").value.split(" ");

const does = {
  async text() {
    const field = one(".edit-tokens input");
    if (!field) return null;
    field.value = Array.from({ length: 1 + below(names.length + 1) }, () => some(names)).join(" ");
    one(".edit-tokens button").click();
    return () => { expected.ids = ids(); };
  },
  async weight() {
    const key = some(parameters);
    symbol(key); decimal(); symbol(key);
    if (!(await numbers(key))) return null;
    const cell = some([...main().querySelectorAll("tbody td[data-at]")]);
  if (!cell) return null;
    cell.click();
    const input = one(".v-entry input, .v-values .field input");
    if (!input) return null;
    const at = [...main().querySelectorAll("tbody td[data-at]")].findIndex((c) => c.dataset.at === cell.dataset.at);
    const before = await numbers(key);
    const x = below(200) / 100 - 1;
    fire(input, String(x));
    return () => { expected.weights[key] = before.map((y, k) => (k === at ? String(x) : y)); };
  },
  async choice() {
    direction("forward");
    for (let k = 0; k < 6; k++) {
      some(all(".v-pipe [data-step]")).click();
      const found = all("[data-choice]").filter(shown);
      if (!found.length) continue;
      const input = some(found);
      const value = input.type === "checkbox" ? !input.checked : some([0.5, 2, 1, 0.125]);
      fire(input, typeof value === "boolean" ? value : String(value));
      return () => { expected.choices[input.dataset.choice] = value; };
    }
    return null;
  },
  async off() {
    direction("forward");
    for (let k = 0; k < 6; k++) {
      some(all(".v-pipe [data-step]")).click();
      const found = all(".v-story .offs button.switch");
      if (!found.length) continue;
      const button = some(found);
      const equation = button.dataset.equation;
      button.click();
      return () => { expected.put = expected.put.includes(equation) ? expected.put.filter((e) => e !== equation) : [...expected.put, equation]; };
    }
    return null;
  },
  async back() {
    const found = all(".v-changes button");
    if (!found.length) return null;
    const k = below(found.length);
    found[k].click();
    return () => { expected.put = expected.put.filter((_, j) => j !== k); };
  },
  async train() {
    const play = one(".play");
    if (!play || Object.keys(await weightsOf()).length < parameters.length) return null;
    play.click(); await settle(); if (play.textContent === "Pause") play.click(); await soon();
    const after = await weightsOf();
    return () => { expected.weights = after; };
  },
  async again() {
    if (!one(".v-training .again")) return null;
    one(".v-training .again").click();
    return () => { expected = { ids: null, weights: {}, choices: {}, put: [] }; };
  },
  async undo() {
    if (one(".undo").hidden) return null;
    one(".undo").click();
    return () => { expected = { ids: null, weights: {}, choices: {}, put: [] }; };
  },
  async on() {
    const button = [...all(".edit-tokens button")][1];
    if (!button) return null;
    button.click();
    return () => { expected.ids = ids(); };
  },
  async direction() { direction(some(["forward", "backward"])); return () => {}; },
  async meaning() { const b = all(".switches [data-name=exact], .switches [data-name=decimal]"); if (!b.length) return null; some(b).click(); return () => {}; },
  async step() { some(all(".v-pipe [data-step]")).click(); return () => {}; },
};
const acts = [];
const out = [];
const often = ["text", "weight", "weight", "choice", "choice", "off", "off", "back", "train", "undo", "again", "on", "direction", "meaning", "step"];
for (let k = 0; k < ACTS; k++) {
  const name = some(often);
  one(".v-note").textContent = "";
  const then = await does[name]();
  if (!then) continue;
  await settle();
  const said = note();
  const fine = said === "" || said === "Everything was computed again" || said === "All changes are undone";
  if (fine) then();
  acts.push(fine ? name : `${name} (${said})`);
  const found = { acts: [...acts], ...structuredClone(expected), forward: {}, backward: {} };
  for (const way of ["forward", "backward"]) {
    if (!one(`.switches [data-name=${way}]`) && way === "backward") continue;
    direction(way); decimal();
    for (const member of rows()) { to(member); found[way][member] = await numbers(member); }
  }
  direction("forward");
  out.push(found);
}
return out;
