// SPDX-License-Identifier: GPL-3.0-or-later
// Figures with a chart are drawn by the browser when they come into view: read by mouse, finger or arrow keys, zoomed, lines
// hidden. Printed they are the drawings that the PDF has.
"use strict";

const HEIGHT = 260;
const AHEAD = "400px";

function drawChart(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const unit = data.x.endsWith("(s)") ? " s" : data.x.endsWith("(%)") ? " %" : "";
  const range = element("span", { role: "status" });
  const charts = new Charts({ ...data.axes, unit, ink: "#1a1a1a", grid: "#dddddd" }, HEIGHT, () => {
    range.textContent = charts.from === null ? "" : charts.range.map(short).join(" to ") + unit;
  });
  const box = element("div", { class: "charts" });
  const bar = charts.toolbar("Zoom of the figure", ["Left", "Right", "All"]);
  bar.append(range);
  const words = data.x ? `${data.y} over ${data.x}` : data.y;
  const legend = charts.legend(data.panels.flatMap((panel) => panel.lines), `Lines: ${words}`);
  const panels = element("div", { class: "panels" });
  box.append(element("p", { class: "axes" }, words), bar, legend.place, panels);
  figure.prepend(box);
  figure.classList.add("charted");
  const places = data.panels.map((panel) => {
    const place = element("div", { class: "plot", tabindex: "0", role: "img",
      "aria-label": `${panel.title || words}: arrow keys read values, plus and minus zoom` });
    const title = element("p", { class: "panel-title" }, panel.title);
    const where = element("span");
    title.append(where);
    const whole = element("div");
    whole.append(title, place);
    panels.append(whole);
    return [place, panel.lines, legend, where];
  });
  for (const one of places) charts.add(...one); // when all have their widths
}

// A chart's points are in the page once; as CSV they are those of figures/NAME.csv.
function addLink(figure) {
  const link = element("a", { href: "data:,", download: `${figure.dataset.name}.csv` }, "Points as CSV");
  link.addEventListener("click", () => {
    const rows = [["panel", "line", "x", "y", "low", "high"]];
    for (const { title, lines } of JSON.parse(figure.querySelector("script").textContent).panels)
      for (const { line, t, v, low, high } of lines)
        t.forEach((at, i) => rows.push([title, line, at, v[i], low?.[i], high?.[i]]));
    const text = rows.map((row) => row.map(cell).join(",") + "\n").join("");
    link.href = `data:text/csv,${encodeURIComponent(text)}`;
  });
  figure.querySelector("figcaption").append(" ", link);
}

// As csv_cell() of results/files.py: a text that a spreadsheet would compute gets a ' in front.
function cell(value) {
  const text = /^\s*[=+@-]/.test(value) && isNaN(value) ? `'${value}` : String(value ?? "");
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) {
      observer.unobserve(target);
      drawChart(target);
    }
  }
}, { rootMargin: AHEAD });
for (const figure of document.querySelectorAll("figure.has-chart")) {
  observer.observe(figure);
  addLink(figure);
}
