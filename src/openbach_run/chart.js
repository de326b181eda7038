// SPDX-License-Identifier: GPL-3.0-or-later
// Lines over a common x, one chart below or beside another: values by mouse or arrow keys, lines that can be hidden, zoom. Needs
// uPlot. The page makes its curves with it (curves.js), the technical report its figures (figures.js).
"use strict";

// The markers of the printed figures: a sign for the legend, and corners around a point (none: a circle).
const MARKERS = {
  o: ["●", null], s: ["■", [[-1, -1], [1, -1], [1, 1], [-1, 1]]], "^": ["▲", [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]]],
  D: ["◆", [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]], v: ["▼", [[0, 1.2], [1.1, -0.9], [-1.1, -0.9]]],
  P: ["✚", [[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4], [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]]],
};
const MARKER_PX = 4;

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function short(number) {
  if (number === null || number === undefined) return "–";
  return Math.abs(number) >= 1e6 ? `${Number((number / 1e6).toPrecision(4))} M`
    : Math.abs(number) >= 1e4 ? `${Number((number / 1e3).toPrecision(4))} k` : String(Number(number.toPrecision(4)));
}

// Ticks at 1, 2 and 5 times powers of ten; where these are too few, at even distances.
function logTicks(min, max) {
  const found = [];
  if (max < 10 * min) {
    const step = 10 ** Math.floor(Math.log10((max - min) / 2));
    const wide = step * [1, 2, 5, 10].find((times) => (max - min) / (step * times) < 8);
    for (let at = Math.ceil(min / wide); at * wide <= max; at += 1) found.push(at * wide);
    return found;
  }
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power += 1) found.push(...[1, 2, 5].map((step) => step * 10 ** power));
  return found.filter((at) => at >= min && at <= max);
}

// Charts that are zoomed together. A line is { line: its name, t, v, colour, dash }, and may have `low` and `high` (its interval
// at each point), `steps`, `marker` (one of MARKERS at each point), and `dots` (no line between its points). `axes` has what the charts have in common: `ticks` on x,
// [place, words] each; `linear`: x is logarithmic above that; `log`: y is; `x`, `y`: what is
// shown before any zoom (without `y` each chart has a range of its own); `unit` of x; `ink` and `grid`, colours.
class Charts {
  static made = 0;

  constructor(axes, height, changed = () => {}) {
    Object.assign(this, { axes, height, changed, panels: [], hidden: new Set(), all: axes.x || [0, 1], from: null, to: null });
    this.key = `charts${Charts.made += 1}`;
    addEventListener("resize", () => this.panels.forEach(({ chart, place }) => chart.setSize({ width: place.clientWidth, height: chart.height })));
  }

  get range() {
    return this.from === null ? this.all : [this.from, this.to];
  }

  // The boxes that hide lines, in which their values are shown too; one for each chart, or one for several.
  legend(lines, label) {
    const place = element("div", { class: "legend", role: "group", "aria-label": label });
    const made = { place, keys: new Map(), reader: null };
    for (const line of lines) {
      if (made.keys.has(line.line)) continue;
      const tick = element("input", { type: "checkbox" });
      tick.checked = !this.hidden.has(line.line);
      tick.addEventListener("change", () => this.toggle(line.line, tick.checked));
      const key = element("span", { class: "key" });
      key.style.borderTopColor = line.colour;
      key.style.borderTopStyle = !line.dash?.length ? "solid" : line.dash[0] > 4 ? "dashed" : "dotted";
      const value = element("span", { class: "value" });
      const words = element("label");
      const sign = element("span", { class: "sign", "data-sign": MARKERS[line.marker] ? MARKERS[line.marker][0] : "" });
      sign.style.color = line.colour;
      words.append(tick, key, sign, ` ${line.line}`, value);
      place.append(words);
      made.keys.set(line.line, { tick, value });
    }
    return made;
  }

  // A chart of lines in a place; `where` is the element that says which x is read.
  add(place, lines, legend, where) {
    const panel = { place, lines, legend, where, data: uPlot.join(lines.map((line) => [line.t, line.v])) };
    const { ink, grid, ticks, linear, log, y, unit } = this.axes;
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, filter: (_, at) => at };
    const x = { ...axis, values: (_, at) => at.map((one) => this.wordsAt(one, unit)) };
    if (ticks) x.splits = (_, __, min, max) => ticks.map(([at]) => at).filter((at) => at >= min && at <= max);
    panel.chart = new uPlot({
      width: place.clientWidth, height: this.height, legend: { show: false },
      scales: {
        x: { time: false, range: () => this.range, ...(linear ? { distr: 4, asinh: linear } : {}) },
        y: { ...(log ? { distr: 3 } : {}), ...(y ? { range: () => this.rangeOfY() } : {}) },
      },
      axes: [x, { ...axis, size: 62, values: (_, at) => at.map(short), ...(log ? { splits: (_, __, min, max) => logTicks(min, max) } : {}) }],
      series: [{}, ...lines.map((line) => ({
        label: line.line, show: !this.hidden.has(line.line), stroke: line.colour, width: 1.5, dash: line.dash,
        points: { show: !line.marker && Boolean(line.low || line.dots), size: 6, fill: line.colour },
        ...(line.dots ? { paths: () => null } : line.steps ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      }))],
      cursor: { sync: { key: this.key, setSeries: false }, drag: { x: true, y: false } },
      hooks: {
        draw: [(chart) => this.drawIntervals(panel, chart), (chart) => this.drawMarkers(panel, chart)],
        setCursor: [(chart) => this.read(panel, chart.cursor.idx)],
        setSelect: [(chart) => {
          const { left, width } = chart.select;
          if (width > 2) this.setRange(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
        }],
      },
    }, panel.data, place);
    place.addEventListener("dblclick", () => this.setRange(null, null));
    place.addEventListener("keydown", (event) => this.useKey(panel, event));
    for (const kind of ["pointerenter", "focus"]) place.addEventListener(kind, () => {
      if (legend.reader && legend.reader !== panel) legend.reader.where.textContent = "";
      legend.reader = panel;
    });
    this.panels.push(panel);
    return panel;
  }

  wordsAt(at, unit) {
    const tick = this.axes.ticks && this.axes.ticks.find(([place]) => place === at);
    return tick ? tick[1] : `${short(at)}${unit}`;
  }

  drawIntervals(panel, chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const line of panel.lines.filter((one) => one.low && !this.hidden.has(one.line))) {
      ctx.strokeStyle = line.colour;
      ctx.lineWidth = devicePixelRatio;
      ctx.beginPath();
      line.t.forEach((at, number) => {
        if (line.low[number] === null) return;
        const left = chart.valToPos(at, "x", true);
        ctx.moveTo(left, chart.valToPos(line.low[number], "y", true));
        ctx.lineTo(left, chart.valToPos(line.high[number], "y", true));
      });
      ctx.stroke();
    }
    ctx.restore();
  }

  drawMarkers(panel, chart) {
    const { ctx } = chart;
    const size = MARKER_PX * devicePixelRatio;
    ctx.save();
    for (const line of panel.lines.filter((one) => MARKERS[one.marker] && !this.hidden.has(one.line))) {
      const corners = MARKERS[line.marker][1];
      ctx.fillStyle = line.colour;
      line.t.forEach((at, number) => {
        if (at < this.range[0] || at > this.range[1]) return;
        const [left, top] = [chart.valToPos(at, "x", true), chart.valToPos(line.v[number], "y", true)];
        ctx.beginPath();
        if (corners) corners.forEach(([x, y]) => ctx.lineTo(left + x * size, top + y * size));
        else ctx.arc(left, top, size, 0, 2 * Math.PI);
        ctx.fill();
      });
    }
    ctx.restore();
  }

  // Shows the values at a place on the common axis: of each line the last one at or before it.
  read(panel, place) {
    const { legend, data, lines } = panel;
    legend.reader ??= panel;
    if (legend.reader !== panel) return;
    const at = place === null || place === undefined ? null : data[0][place];
    for (const [line, { value }] of legend.keys) {
      const number = lines.findIndex((one) => one.line === line);
      value.textContent = at === null || number < 0 ? "" : ` ${this.valueOf(lines[number], at)}`;
    }
    const words = at === null ? "" : `${Number(at.toPrecision(6))}${this.axes.unit}`;
    panel.where.textContent = words && ` at ${words}`;
  }

  valueOf(line, at) {
    let [least, most] = [0, line.t.length];
    while (least < most) {
      const middle = (least + most) >> 1;
      if (line.t[middle] <= at) least = middle + 1;
      else most = middle;
    }
    const found = least - 1;
    if (found < 0) return "–";
    const [value, low, high] = [line.v, line.low, line.high].map((of) => of && of[found] !== null ? short(of[found]) : "");
    return low && (low !== value || high !== value) ? `${value} [${low}–${high}]` : value;
  }

  useKey(panel, event) {
    const zoomed = { "+": 0.5, "-": 2 }[event.key];
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 50, PageUp: -50 }[event.key];
    if (zoomed) this.zoom(zoomed);
    else if (event.key === "0") this.setRange(null, null);
    else if (step) this.step(panel, step);
    else return;
    event.preventDefault();
  }

  step({ chart, data: [places] }, step) {
    const [min, max] = this.range;
    const at = chart.cursor.idx ?? places.findIndex((place) => place >= min) - 1;
    const next = places[Math.min(Math.max(at + step, 0), places.length - 1)];
    if (next < min || next > max) this.setRange(next - (max - min) / 2, next + (max - min) / 2);
    chart.setCursor({ left: chart.valToPos(next, "x"), top: this.height / 3 });
  }

  // What y shows where all charts have the same: at first what the figure shows, then what is within the range of x.
  rangeOfY() {
    if (this.from === null) return this.axes.y;
    const [from, to] = this.range;
    const shown = this.panels.flatMap(({ lines }) => lines.filter((line) => !this.hidden.has(line.line)));
    let [least, most] = [Infinity, -Infinity];
    for (const line of shown) {
      line.t.forEach((at, number) => {
        if (at < from || at > to) return;
        least = Math.min(least, line.low?.[number] ?? line.v[number]);
        most = Math.max(most, line.high?.[number] ?? line.v[number]);
      });
    }
    if (least > most) return this.axes.y;
    if (this.axes.log) return [least / 1.1, most * 1.1];
    const room = 0.05 * (most - least) || 0.05 * Math.abs(most) || 1;
    return [least - room, most + room];
  }

  setRange(from, to) {
    this.from = from === null ? null : Math.max(from, this.all[0]);
    this.to = to === null ? null : Math.min(to, this.all[1]);
    if (this.from === null || this.to === null || !(this.to > this.from)) this.from = this.to = null;
    this.show();
  }

  show() {
    const [min, max] = this.range;
    for (const { chart } of this.panels) {
      chart.setScale("x", { min, max });
      chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    }
    this.changed();
  }

  // By places on the paper, so that logarithmic axes zoom as they look.
  zoom(factor) {
    const [{ chart }] = this.panels;
    const wide = chart.over.clientWidth;
    const [from, to] = [(1 - factor) / 2, (1 + factor) / 2].map((part) => chart.posToVal(part * wide, "x"));
    if (from <= this.all[0] && to >= this.all[1]) this.setRange(null, null);
    else this.setRange(from, to);
  }

  shift(part) {
    if (this.from === null) return;
    const [{ chart }] = this.panels;
    const wide = chart.over.clientWidth;
    const [first, last] = this.all.map((at) => chart.valToPos(at, "x"));
    const by = Math.min(Math.max(part * wide, first), last - wide);
    this.setRange(chart.posToVal(by, "x"), chart.posToVal(by + wide, "x"));
  }

  toggle(name, on) {
    if (on) this.hidden.delete(name);
    else this.hidden.add(name);
    for (const { chart, lines, legend } of this.panels) {
      lines.forEach((line, number) => { if (line.line === name) chart.setSeries(number + 1, { show: on }); });
      if (legend.keys.has(name)) legend.keys.get(name).tick.checked = on;
    }
    this.changed();
  }

  toolbar(label, [earlier, later, all]) {
    const bar = element("div", { class: "toolbar", role: "toolbar", "aria-label": label });
    for (const [words, act] of [["Zoom in", () => this.zoom(0.5)], ["Zoom out", () => this.zoom(2)], [earlier, () => this.shift(-0.5)],
      [later, () => this.shift(0.5)], [all, () => this.setRange(null, null)]]) {
      const button = element("button", { type: "button" }, words);
      button.addEventListener("click", act);
      bar.append(button);
    }
    return bar;
  }
}
