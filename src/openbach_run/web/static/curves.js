// SPDX-License-Identifier: GPL-3.0-or-later
// Curves over virtual time: one plot below another, all on the same times. What is shown is in the address.
"use strict";

const HEIGHT = 210;
const EVERY_MS = 1000;
const DASHES = [[], [8, 4], [2, 3]];
const COLOURS = 6;
const box = document.getElementById("curves");
const status = document.getElementById("curves-status");
const asked = new URLSearchParams(location.search);
const hidden = new Set(asked.getAll("hide"));
const state = { from: null, to: null, all: [0, 1], more: asked.get("more") === "yes" };
let drawn = [];

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function short(number) {
  if (number === null || number === undefined) return "–";
  return Math.abs(number) >= 1e6 ? `${Number((number / 1e6).toPrecision(4))} M`
    : Math.abs(number) >= 1e4 ? `${Number((number / 1e3).toPrecision(4))} k` : String(Number(number.toPrecision(4)));
}

// The last value of a line at or before a place on the common axis of times.
function valueAt(column, place) {
  for (let at = place; at >= 0 && at > place - 5000; at -= 1) if (column[at] !== undefined && column[at] !== null) return column[at];
  return null;
}

function showValues(one, place) {
  const time = place === null || place === undefined ? null : one.data[0][place];
  one.keys.forEach((key, number) => {
    key.value.textContent = time === null ? "" : ` ${short(valueAt(one.data[number + 1], place))}`;
  });
  one.time.textContent = time === null ? "" : ` at ${time.toFixed(3)} s`;
}

// Colour and dashes of each line: a colour for a run where there are several, else for a line.
function looks(lines) {
  const several = new Set(lines.map((line) => line.run)).size > 1;
  return lines.map((line, number) => {
    const own = several ? lines.slice(0, number).filter((other) => other.run === line.run).length : Math.floor(number / COLOURS);
    const which = several ? line.run : number;
    return { colour: which % COLOURS, dash: (several ? own + Math.floor(which / COLOURS) : own) % DASHES.length };
  });
}

function plotOf(plot) {
  const look = looks(plot.lines);
  const data = uPlot.join(plot.lines.map((line) => [line.t, line.v]));
  const figure = element("figure");
  const caption = element("figcaption", {}, plot.name);
  const time = element("span", { class: "hint" });
  caption.append(time);
  const place = element("div", { class: "plot", tabindex: "0", role: "img",
    "aria-label": `${plot.name} over virtual time; arrow keys read values` });
  const legend = element("div", { class: "legend", role: "group", "aria-label": `Lines of ${plot.name}` });
  figure.append(caption, place, legend);
  box.append(figure);
  const one = { plot, data, figure, time, keys: [] };
  plot.lines.forEach((line, number) => {
    const label = element("label");
    const tick = element("input", { type: "checkbox" });
    tick.checked = !hidden.has(line.line);
    const value = element("span", { class: "value" });
    label.append(tick, element("span", { class: `key c${look[number].colour} d${look[number].dash}` }), ` ${line.line}`, value);
    legend.append(label);
    one.keys.push({ value });
    tick.addEventListener("change", () => toggle(line.line, tick.checked));
  });
  const axis = { stroke: style("--ink"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
  one.chart = new uPlot({
    width: box.clientWidth, height: HEIGHT, legend: { show: false },
    scales: { x: { time: false } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((at) => `${short(at)} s`) }, { ...axis, size: 62, values: (_, ticks) => ticks.map(short) }],
    series: [{}, ...plot.lines.map((line, number) => ({
      label: line.line, show: !hidden.has(line.line), stroke: style(`--c${look[number].colour}`), width: 1.5,
      dash: DASHES[look[number].dash], points: { show: false },
    }))],
    cursor: { sync: { key: "time", setSeries: false }, drag: { x: true, y: false } },
    hooks: {
      setCursor: [(chart) => showValues(one, chart.cursor.idx)],
      setSelect: [(chart) => {
        if (chart.select.width > 2) setRange(chart.posToVal(chart.select.left, "x"), chart.posToVal(chart.select.left + chart.select.width, "x"));
      }],
    },
  }, data, place);
  place.addEventListener("dblclick", () => setRange(null, null));
  place.addEventListener("keydown", (event) => readWithKeys(one, event));
  drawn.push(one);
}

function readWithKeys(one, event) {
  const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 50, PageUp: -50 }[event.key];
  if (!step) return;
  event.preventDefault();
  const { min, max } = one.chart.scales.x;
  const times = one.data[0];
  const at = one.chart.cursor.idx ?? times.findIndex((time) => time >= min) - 1;
  const next = Math.min(Math.max(at + step, 0), times.length - 1);
  if (times[next] < min || times[next] > max) setRange(times[next] - (max - min) / 2, times[next] + (max - min) / 2);
  one.chart.setCursor({ left: one.chart.valToPos(times[next], "x"), top: HEIGHT / 3 });
}

function toggle(name, on) {
  if (on) hidden.delete(name);
  else hidden.add(name);
  for (const one of drawn) {
    one.plot.lines.forEach((line, number) => {
      if (line.line === name) {
        one.chart.setSeries(number + 1, { show: on });
        one.figure.querySelectorAll(".legend input")[number].checked = on;
      }
    });
  }
  keepInAddress();
}

function setRange(from, to) {
  state.from = from === null ? null : Math.max(from, state.all[0]);
  state.to = to === null ? null : Math.min(to, state.all[1]);
  if (state.from === null || state.to === null || state.to <= state.from) state.from = state.to = null;
  showRange();
  keepInAddress();
}

function range() {
  return state.from === null ? state.all : [state.from, state.to];
}

function showRange() {
  const [min, max] = range();
  for (const one of drawn) {
    one.chart.setScale("x", { min, max });
    one.chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }
  for (const bar of document.querySelectorAll(".bar")) {
    const left = Math.max(0, (bar.dataset.from - min) / (max - min));
    const right = Math.min(1, (bar.dataset.to - min) / (max - min));
    bar.style.marginLeft = `${100 * Math.min(left, 1)}%`;
    bar.style.width = `${Math.max(100 * (right - left), right < 0 || left > 1 ? 0 : 0.5)}%`;
  }
  document.getElementById("range").textContent = `${min.toFixed(2)} to ${max.toFixed(2)} s`;
}

function zoom(factor) {
  const [min, max] = range();
  const middle = (min + max) / 2;
  const half = (max - min) / 2 * factor;
  if (half * 2 >= state.all[1] - state.all[0]) setRange(null, null);
  else setRange(middle - half, middle + half);
}

function shift(part) {
  const [min, max] = range();
  const wide = max - min;
  const from = Math.min(Math.max(min + part * wide, state.all[0]), state.all[1] - wide);
  if (state.from !== null) setRange(from, from + wide);
}

function keepInAddress() {
  const shown = new URLSearchParams(box.dataset.query);
  if (state.from !== null) {
    shown.set("from", state.from.toFixed(3));
    shown.set("to", state.to.toFixed(3));
  }
  for (const name of hidden) shown.append("hide", name);
  const files = new URLSearchParams(shown);
  for (const one of drawn) files.append("plot", one.plot.name);
  for (const link of document.querySelectorAll("a[data-export]")) link.href = `/page/curves.${link.dataset.export}?${files}`;
  if (state.more) shown.set("more", "yes");
  const own = new URLSearchParams(location.search);
  for (const name of ["from", "to", "hide", "more"]) {
    own.delete(name);
    for (const value of shown.getAll(name)) own.append(name, value);
  }
  history.replaceState(null, "", `${location.pathname}${own.size ? "?" : ""}${own}`);
}

function toolbar() {
  const bar = element("div", { class: "toolbar", role: "toolbar", "aria-label": "Times that are shown" });
  const button = (words, act) => {
    const made = element("button", { type: "button" }, words);
    made.addEventListener("click", act);
    bar.append(made);
  };
  button("Zoom in", () => zoom(0.5));
  button("Zoom out", () => zoom(2));
  button("Earlier", () => shift(-0.5));
  button("Later", () => shift(0.5));
  button("All times", () => setRange(null, null));
  bar.append(element("span", { id: "range", class: "hint" }));
  for (const [kind, words] of [["svg", "SVG"], ["png", "PNG"], ["csv", "CSV"]]) bar.append(element("a", { "data-export": kind, href: "#" }, words));
  return bar;
}

function draw(plots) {
  const first = plots.filter((plot) => plot.first);
  const shown = state.more || !first.length ? plots : first;
  drawn = [];
  box.replaceChildren(toolbar());
  const times = plots.flatMap((plot) => plot.lines.flatMap((line) => [line.t[0], line.t[line.t.length - 1]]));
  state.all = [Math.min(0, ...times), Math.max(...times, 0.001)];
  for (const plot of shown) plotOf(plot);
  if (plots.length > shown.length) {
    const more = element("button", { type: "button" }, `${plots.length - shown.length} more curves: ${plots.filter((plot) => !shown.includes(plot)).map((plot) => plot.name).join(", ").slice(0, 200)}`);
    more.addEventListener("click", () => {
      state.more = true;
      draw(plots);
      box.querySelectorAll(".plot")[shown.length].focus();
    });
    box.append(more);
  }
  showRange();
  keepInAddress();
}

function renew(plots) {
  for (const one of drawn) {
    const plot = plots.find((other) => other.name === one.plot.name);
    if (!plot || plot.lines.length !== one.plot.lines.length) return draw(plots);
    one.data = uPlot.join(plot.lines.map((line) => [line.t, line.v]));
    one.chart.setData(one.data, false);
  }
  const times = plots.flatMap((plot) => plot.lines.map((line) => line.t[line.t.length - 1]));
  state.all = [state.all[0], Math.max(...times, 0.001)];
  showRange();
}

async function read() {
  let again = box.dataset.live === "yes";
  try {
    const answer = await fetch(`/page/curves.json?${box.dataset.query}`);
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const { plots, going } = await answer.json();
    const first = !drawn.length;
    if (plots.length) (first ? draw : renew)(plots);
    if (plots.length && first && asked.has("from")) setRange(Number(asked.get("from")), Number(asked.get("to")));
    status.textContent = plots.length ? "" : again ? "nothing was sent yet" : "no statistic was sent often enough for a curve";
    if (again && !going) location.reload();
  } catch (error) {
    status.textContent = `no curves (${error.message})`;
  }
  if (!document.getElementById("range")) for (const bar of document.querySelectorAll(".bar")) bar.parentElement.hidden = true;
  if (again) setTimeout(read, EVERY_MS);
  box.setAttribute("aria-busy", String(again));
}

addEventListener("resize", () => {
  for (const one of drawn) one.chart.setSize({ width: box.clientWidth, height: HEIGHT });
});
read();
