// SPDX-License-Identifier: GPL-3.0-or-later
// What is kept for comparison, from page to page: boxes of class `pick`, and the link Compare in the head. And what a form says
// while it is waited for (data-wait).
"use strict";

const KEPT = "compare";
const MOST = 12;

function kept() {
  return JSON.parse(sessionStorage.getItem(KEPT) || "[]");
}

function showTray() {
  const items = kept();
  const link = document.getElementById("tray");
  link.textContent = items.length ? `Compare (${items.length})` : "Compare";
  link.href = `/page/compare${items.length ? "?" : ""}${items.join("&")}`;
  for (const box of document.querySelectorAll("input.pick")) box.checked = items.includes(box.value);
}

document.addEventListener("change", (event) => {
  if (!event.target.matches("input.pick")) return;
  const others = kept().filter((item) => item !== event.target.value);
  const items = event.target.checked ? [...others, event.target.value].slice(-MOST) : others;
  sessionStorage.setItem(KEPT, JSON.stringify(items));
  showTray();
});
// Arrow keys go from cell to cell of a map.
document.addEventListener("keydown", (event) => {
  const cell = event.target.closest(".heat td");
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const row = cell && step && cell.closest("tbody").rows[cell.parentElement.sectionRowIndex + step[0]];
  row?.cells[cell.cellIndex + step[1]]?.querySelector("a")?.focus();
  if (row) event.preventDefault();
});
document.addEventListener("submit", (event) => {
  if (event.target.dataset.wait) event.target.querySelector("[role=status]").textContent = event.target.dataset.wait;
});
document.getElementById("main").addEventListener("swapped", showTray);
showTray();
