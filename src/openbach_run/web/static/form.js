// SPDX-License-Identifier: GPL-3.0-or-later
// The form of a scenario: what the server says of its values as they are now, and the values of the file's own sweep.
"use strict";

const WAIT_MS = 250;
const form = document.getElementById("launch");
const fields = [...form.querySelectorAll("fieldset[data-name]")];
let asked = 0;
let timer = null;

async function check() {
  const number = asked += 1;
  const answer = await fetch(form.dataset.check, { method: "POST", body: new FormData(form) });
  const found = answer.ok ? await answer.json() : { errors: {}, text: `no answer from the server (HTTP ${answer.status})`, notes: [] };
  if (number !== asked) return;
  for (const field of fields) {
    const words = found.errors[field.dataset.name] || "";
    const place = field.querySelector(".wrong-value");
    if (place.textContent !== words) place.textContent = words;
    field.classList.toggle("wrong", Boolean(words));
    const text = field.querySelector("input[type=text]");
    if (text) text.setAttribute("aria-invalid", String(Boolean(words)));
  }
  document.getElementById("count").textContent = found.errors[""] ? found.errors[""] : found.text;
  document.getElementById("notes").textContent = found.notes.join("; ");
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(check, WAIT_MS);
}

document.getElementById("whole").addEventListener("click", () => {
  for (const field of fields.filter((one) => one.dataset.whole)) {
    const whole = field.dataset.whole.split(",");
    const text = field.querySelector("input[type=text]");
    if (text) text.value = whole.join(", ");
    for (const box of field.querySelectorAll("input[type=checkbox]")) box.checked = whole.includes(box.value);
  }
  check();
});
form.addEventListener("input", soon);
check();
