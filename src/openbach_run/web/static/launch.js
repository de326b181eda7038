// SPDX-License-Identifier: GPL-3.0-or-later
// A launch while it runs: its state is asked for twice a second until all has ended.
"use strict";

const EVERY_MS = 500;
const FIRST = [/goodput|throughput/, /rtt/i];
const place = location.pathname;
const picker = document.getElementById("run");
let picked = null;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function fill(table, header, rows, labels) {
  const head = element("tr", "");
  header.forEach((name, index) => head.append(element("th", name, { scope: "col", class: index < labels ? "" : "number" })));
  const made = rows.map((row) => {
    const line = element("tr", "");
    row.forEach((cell, index) => line.append(index < labels ? element("th", cell, { scope: "row" }) : element("td", cell, { class: "number" })));
    return line;
  });
  const top = document.createElement("thead");
  const body = document.createElement("tbody");
  top.append(head);
  body.append(...made);
  table.replaceChildren(top, body);
}

function showRuns(runs, measure) {
  const figure = (value) => (value === null || value === undefined ? "" : value.toFixed(2));
  const rows = runs.map((run) => [run.id, run.cell, run.seed, run.status, run.virtual_s.toFixed(1), figure(run.measured)]);
  const table = document.getElementById("runs");
  fill(table, ["Run", "Cell", "Seed", "State", "Virtual s", measure], rows, 4);
  [...table.tBodies[0].rows].forEach((row, index) => {
    if (runs[index].error) row.append(element("td", runs[index].error, { class: "failed" }));
  });
  const options = [...picker.options].map((option) => option.value).join();
  if (options !== runs.map((run) => run.id).join()) {
    picker.replaceChildren(...runs.map((run) => element("option", `${run.id}: ${run.cell}, seed ${run.seed}`, { value: run.id })));
  }
  if (picked === null) {
    const going = runs.find((run) => run.status === "Running") || runs.findLast((run) => run.ended) || runs[0];
    picker.value = going.id;
  }
}

function showState(state) {
  const progress = document.getElementById("progress");
  progress.max = state.total;
  progress.value = state.done;
  const failed = state.failed ? `, ${state.failed} not finished well` : "";
  const text = `${state.done} of ${state.total} runs done${failed}, ${state.virtual_s.toFixed(0)} virtual s`;
  const status = document.getElementById("status");
  if (status.textContent !== text) status.textContent = text;
  const table = document.getElementById("table");
  fill(table, state.table.header, state.table.rows, state.table.labels);
  document.getElementById("title").textContent = state.table.title;
  document.getElementById("note").textContent = state.table.note;
  drawBars(document.getElementById("bars"), state.table.measure, groupsOf(state.table));
  showRuns(state.runs, state.table.measure);
  document.getElementById("stop").hidden = state.done === state.total;
}

function rank(name) {
  const found = FIRST.findIndex((pattern) => pattern.test(name));
  return found < 0 ? FIRST.length : found;
}

function showLive(live) {
  const byName = Map.groupBy(live.series, (one) => one.name);
  const names = [...byName.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)).slice(0, 8);
  const box = document.getElementById("series");
  while (box.children.length > names.length) box.lastChild.remove();
  while (box.children.length < names.length) box.append(document.createElement("figure"));
  names.forEach((name, index) => drawLines(box.children[index], name, byName.get(name).slice(0, 6)));
  drawJobs(document.getElementById("jobs"), live.jobs);
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: HTTP ${answer.status}`);
  return answer.json();
}

async function look() {
  let again = true;
  try {
    const state = await ask(`${place}/state`);
    showState(state);
    showLive(await ask(`/page/run/${picker.value}/live`));
    again = state.done < state.total;
  } catch (error) {
    document.getElementById("status").textContent = `no answer from the server (${error.message}); asking again`;
  }
  document.getElementById("main").setAttribute("aria-busy", again);
  if (again) setTimeout(look, EVERY_MS);
}

picker.addEventListener("change", async () => {
  picked = picker.value;
  showLive(await ask(`/page/run/${picked}/live`));
});
look();
