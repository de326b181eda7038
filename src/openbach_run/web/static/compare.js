// SPDX-License-Identifier: GPL-3.0-or-later
// The bars of several tables in one plot.
"use strict";

const groups = [...document.querySelectorAll("table.times")].flatMap((table) => {
  const labels = Number(table.dataset.labels);
  const header = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const launch = table.closest("section").getAttribute("aria-label").replace("Launch ", "#");
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  return groupsOf({ labels, header, rows, title: launch }).map((group) => ({ ...group, label: `${launch} ${group.label}` }));
});
const measures = [...document.querySelectorAll("table.times")].map((table) => table.dataset.measure);
if (groups.length) drawBars(document.getElementById("bars"), [...new Set(measures)].join(", "), groups);
