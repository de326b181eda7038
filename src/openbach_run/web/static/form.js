// SPDX-License-Identifier: GPL-3.0-or-later
// The form of a scenario: how many runs its values make, and the values of the file's own sweep.
"use strict";

const form = document.getElementById("launch");
const fields = [...form.querySelectorAll("fieldset[data-whole]")];

function values(field) {
  const text = field.querySelector("input[type=text]");
  return text ? text.value.split(",").map((part) => part.trim()).filter(Boolean)
    : [...field.querySelectorAll("input:checked")].map((box) => box.value);
}

function seeds() {
  const text = form.elements.seeds.value;
  return text.includes(",") ? text.split(",").filter((part) => part.trim()).length : Number(text) || 0;
}

function count() {
  const cells = fields.reduce((product, field) => product * values(field).length, 1);
  const runs = cells * seeds();
  const empty = fields.filter((field) => !values(field).length).map((field) => field.querySelector("legend").textContent);
  document.getElementById("count").textContent = empty.length ? `choose a value of ${empty.join(", ")}`
    : `${cells} cell${cells === 1 ? "" : "s"}, ${runs} run${runs === 1 ? "" : "s"}`;
}

document.getElementById("whole").addEventListener("click", () => {
  for (const field of fields) {
    const whole = field.dataset.whole.split(",");
    const text = field.querySelector("input[type=text]");
    if (text) text.value = whole.join(", ");
    for (const box of field.querySelectorAll("input[type=checkbox]")) box.checked = whole.includes(box.value);
  }
  count();
});
form.addEventListener("input", count);
count();
