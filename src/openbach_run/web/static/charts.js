// SPDX-License-Identifier: GPL-3.0-or-later
// Plots as SVG: bars of a table, lines of time series, and when jobs ran.
"use strict";

const WIDTH = 760;
const LEFT = 64;
const COLOURS = 6;

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawing(figure, height, label) {
  const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
  figure.replaceChildren(made);
  return made;
}

// Round numbers from 0 or `least` to at least `most`.
function ticks(least, most) {
  const step = 10 ** Math.floor(Math.log10((most - least) || 1));
  const wide = [step / 5, step / 2, step, step * 2].find((one) => (most - least) / one <= 6) || step;
  const found = [];
  for (let at = Math.ceil(least / wide) * wide; at <= most + wide / 1e6; at += wide) found.push(Number(at.toPrecision(12)));
  return found;
}

function short(number) {
  return Math.abs(number) >= 1e6 ? `${Number((number / 1e6).toPrecision(4))}M`
    : Math.abs(number) >= 1e4 ? `${Number((number / 1e3).toPrecision(4))}k` : String(Number(number.toPrecision(4)));
}

// groups: [{label, bars: [{name, value}]}], value NaN where there is none yet
function drawBars(figure, title, groups) {
  const names = [...new Set(groups.flatMap((group) => group.bars.map((bar) => bar.name)))];
  const most = Math.max(...groups.flatMap((group) => group.bars.map((bar) => bar.value)).filter(Number.isFinite));
  if (!Number.isFinite(most)) return figure.replaceChildren();
  const bar = 17;
  const top = 26 + 18 * Math.ceil(names.length / 4);
  const height = top + groups.reduce((sum, group) => sum + group.bars.length * bar + 10, 0) + 24;
  const left = Math.min(260, 20 + 7 * Math.max(...groups.map((group) => group.label.length)));
  const scale = (WIDTH - left - 70) / most;
  const made = drawing(figure, height, `${title}; the same numbers are in the table`);
  made.append(svg("text", { x: 0, y: 14, "font-weight": 600 }, title));
  names.forEach((name, index) => {
    const x = (index % 4) * 180;
    const y = 32 + 18 * Math.floor(index / 4);
    made.append(svg("rect", { x, y: y - 10, width: 11, height: 11, class: `c${index % COLOURS}` }));
    made.append(svg("text", { x: x + 16, y }, name));
  });
  for (const at of ticks(0, most)) {
    const x = left + at * scale;
    made.append(svg("line", { x1: x, x2: x, y1: top, y2: height - 20, class: "grid" }));
    made.append(svg("text", { x, y: height - 6, "text-anchor": "middle", class: "soft" }, short(at)));
  }
  let y = top + 4;
  for (const group of groups) {
    const middle = y + group.bars.length * bar / 2 + 4;
    made.append(svg("text", { x: left - 8, y: middle, "text-anchor": "end" }, group.label));
    for (const one of group.bars) {
      if (Number.isFinite(one.value)) {
        const width = Math.max(1, one.value * scale);
        made.append(svg("rect", { x: left, y, width, height: bar - 3, class: `c${names.indexOf(one.name) % COLOURS}` }));
        made.append(svg("text", { x: left + width + 5, y: y + 11 }, one.value.toFixed(2)));
      }
      y += bar;
    }
    y += 10;
  }
}

// A table as groups of bars: a group per row.
function groupsOf(table) {
  return table.rows.map((row) => ({
    label: row.slice(0, table.labels).join(" · ") || table.title.split(":")[0],
    bars: table.header.slice(table.labels).map((name, index) => ({ name, value: parseFloat(row[table.labels + index]) })),
  }));
}

// series: [{label, points: [[seconds, value]]}]
function drawLines(figure, title, series) {
  const height = 230 + 16 * series.length;
  const all = series.flatMap((one) => one.points);
  const from = Math.min(...all.map((point) => point[0]));
  const to = Math.max(...all.map((point) => point[0]), from + 1);
  const least = Math.min(0, ...all.map((point) => point[1]));
  const most = Math.max(...all.map((point) => point[1]), least + 1e-9) * 1.05;
  const bottom = 200;
  const x = (at) => LEFT + (at - from) / (to - from) * (WIDTH - LEFT - 16);
  const y = (value) => bottom - (value - least) / (most - least) * (bottom - 26);
  const made = drawing(figure, height, `${title} over the virtual time of the run`);
  made.append(svg("text", { x: 0, y: 14, "font-weight": 600 }, title));
  for (const at of ticks(least, most)) {
    made.append(svg("line", { x1: LEFT, x2: WIDTH - 16, y1: y(at), y2: y(at), class: "grid" }));
    made.append(svg("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end", class: "soft" }, short(at)));
  }
  for (const at of ticks(from, to)) {
    made.append(svg("text", { x: x(at), y: bottom + 16, "text-anchor": "middle", class: "soft" }, `${short(at)} s`));
  }
  series.forEach((one, index) => {
    const path = one.points.map((point, at) => `${at ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
    made.append(svg("path", { d: path, class: `line c${index % COLOURS}` }));
    made.append(svg("rect", { x: LEFT, y: bottom + 26 + 16 * index, width: 11, height: 11, class: `c${index % COLOURS}` }));
    made.append(svg("text", { x: LEFT + 16, y: bottom + 36 + 16 * index }, one.label));
  });
}

// jobs: [{job, entity, start_s, stop_s, status}]
function drawJobs(figure, jobs) {
  if (!jobs.length) return figure.replaceChildren();
  const row = 18;
  const left = 240;
  const height = 24 + row * jobs.length + 22;
  const to = Math.max(...jobs.map((job) => job.stop_s), 1);
  const x = (at) => left + at / to * (WIDTH - left - 16);
  const made = drawing(figure, height, "When each job ran");
  made.append(svg("text", { x: 0, y: 14, "font-weight": 600 }, "Jobs"));
  for (const at of ticks(0, to)) {
    made.append(svg("line", { x1: x(at), x2: x(at), y1: 22, y2: height - 20, class: "grid" }));
    made.append(svg("text", { x: x(at), y: height - 6, "text-anchor": "middle", class: "soft" }, `${short(at)} s`));
  }
  jobs.forEach((job, index) => {
    const top = 24 + row * index;
    const colour = job.status === "Error" ? "c1" : job.status === "Running" ? "c2" : "c0";
    made.append(svg("text", { x: left - 8, y: top + 12, "text-anchor": "end" }, `${job.job} on ${job.entity}`));
    made.append(svg("rect", { x: x(job.start_s), y: top + 2, width: Math.max(2, x(job.stop_s) - x(job.start_s)), height: row - 5, class: colour }));
  });
}
