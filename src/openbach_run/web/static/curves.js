// SPDX-License-Identifier: GPL-3.0-or-later
// Curves over the time of a run: one plot below another, all on the same times. What is shown is in the address.
"use strict";

const HEIGHT = 210;
const EVERY_MS = 1000;
const DASHES = [[], [8, 4], [2, 3]];
const COLOURS = 6;
const box = document.getElementById("curves");
const status = document.getElementById("curves-status");
const asked = new URLSearchParams(location.search);
const charts = new Charts({ unit: " s", ink: style("--ink"), grid: style("--line") }, HEIGHT, keepInAddress);
let drawn = [];
let more = asked.get("more") === "yes";

for (const name of asked.getAll("hide")) charts.hidden.add(name);

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// With the colour and dashes of each line: a colour for a run where there are several, else for a line.
function looking(lines) {
  const several = new Set(lines.map((line) => line.run)).size > 1;
  return lines.map((line, number) => {
    const own = several ? lines.slice(0, number).filter((other) => other.run === line.run).length : Math.floor(number / COLOURS);
    const which = several ? line.run : number;
    const dash = DASHES[(several ? own + Math.floor(which / COLOURS) : own) % DASHES.length];
    return { ...line, colour: style(`--c${which % COLOURS}`), dash };
  });
}

function plotOf(plot) {
  const figure = element("figure");
  const caption = element("figcaption", {}, plot.name);
  const time = element("span", { class: "hint" });
  caption.append(time);
  const place = element("div", { class: "plot", tabindex: "0", role: "img",
    "aria-label": `${plot.name} over time; arrow keys read values, plus and minus zoom` });
  const lines = looking(plot.lines);
  const legend = charts.legend(lines, `Lines of ${plot.name}`);
  figure.append(caption, place, legend.place);
  box.append(figure);
  drawn.push({ plot, panel: charts.add(place, lines, legend, time) });
}

function keepInAddress() {
  const [min, max] = charts.range;
  for (const bar of document.querySelectorAll(".bar")) {
    const left = Math.max(0, (bar.dataset.from - min) / (max - min));
    const right = Math.min(1, (bar.dataset.to - min) / (max - min));
    bar.style.marginLeft = `${100 * Math.min(left, 1)}%`;
    bar.style.width = `${Math.max(100 * (right - left), right < 0 || left > 1 ? 0 : 0.5)}%`;
  }
  document.getElementById("range").textContent = `${min.toFixed(2)} to ${max.toFixed(2)} s`;
  const shown = new URLSearchParams(box.dataset.query);
  if (charts.from !== null) {
    shown.set("from", charts.from.toFixed(3));
    shown.set("to", charts.to.toFixed(3));
  }
  for (const name of charts.hidden) shown.append("hide", name);
  const files = new URLSearchParams(shown);
  for (const { plot } of drawn) files.append("plot", plot.name);
  for (const link of document.querySelectorAll("a[data-export]")) link.href = `/page/curves.${link.dataset.export}?${files}`;
  if (more) shown.set("more", "yes");
  const own = new URLSearchParams(location.search);
  for (const name of ["from", "to", "hide", "more"]) {
    own.delete(name);
    for (const value of shown.getAll(name)) own.append(name, value);
  }
  if (document.getElementById("shown")) document.getElementById("shown").value = own;
  history.replaceState(null, "", `${location.pathname}${own.size ? "?" : ""}${own}`);
}

function draw(plots) {
  const first = plots.filter((plot) => plot.first);
  const shown = more || !first.length ? plots : first;
  drawn = [];
  charts.panels = [];
  const bar = charts.toolbar("Times that are shown", ["Earlier", "Later", "All times"]);
  bar.append(element("span", { id: "range", class: "hint" }));
  for (const kind of ["svg", "png", "csv"]) bar.append(element("a", { "data-export": kind, href: "#" }, kind.toUpperCase()));
  box.replaceChildren(bar);
  const times = plots.flatMap((plot) => plot.lines.flatMap((line) => [line.t[0], line.t[line.t.length - 1]]));
  charts.all = [Math.min(0, ...times), Math.max(...times, 0.001)];
  for (const plot of shown) plotOf(plot);
  if (plots.length > shown.length) {
    const others = plots.filter((plot) => !shown.includes(plot)).map((plot) => plot.name);
    const button = element("button", { type: "button" }, `${others.length} more curves: ${others.join(", ").slice(0, 200)}`);
    button.addEventListener("click", () => {
      more = true;
      draw(plots);
      box.querySelectorAll(".plot")[shown.length].focus();
    });
    box.append(button);
  }
  charts.show();
}

function renew(plots) {
  for (const { plot, panel } of drawn) {
    const now = plots.find((other) => other.name === plot.name);
    if (!now || now.lines.length !== plot.lines.length) return draw(plots);
    now.lines.forEach((line, number) => Object.assign(panel.lines[number], { t: line.t, v: line.v }));
    panel.data = uPlot.join(now.lines.map((line) => [line.t, line.v]));
    panel.chart.setData(panel.data, false);
  }
  const times = plots.flatMap((plot) => plot.lines.map((line) => line.t[line.t.length - 1]));
  charts.all = [charts.all[0], Math.max(...times, 0.001)];
  charts.show();
}

async function read() {
  let again = box.dataset.live === "yes";
  const log = document.getElementById("log");
  try {
    if (log) log.innerHTML = await (await fetch(log.dataset.from)).text();
    const answer = await fetch(`/page/curves.json?${box.dataset.query}`);
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const { plots, going } = await answer.json();
    const first = !drawn.length;
    if (plots.length) (first ? draw : renew)(plots);
    if (plots.length && first && asked.has("from")) charts.setRange(Number(asked.get("from")), Number(asked.get("to")));
    status.textContent = plots.length ? "" : again ? "nothing was sent yet" : "no statistic was sent often enough for a curve";
    if (again && !going) location.reload();
  } catch (error) {
    status.textContent = `no curves (${error.message})`;
  }
  if (!document.getElementById("range")) for (const bar of document.querySelectorAll(".bar")) bar.parentElement.hidden = true;
  if (again) setTimeout(read, EVERY_MS);
  box.setAttribute("aria-busy", String(again));
}

read();
