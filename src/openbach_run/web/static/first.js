// SPDX-License-Identifier: GPL-3.0-or-later
// Page 1 of the report above the table of a set, once all of its runs have ended: figure, sentences, what to use.
"use strict";

async function showFirstPage() {
  const place = document.getElementById("first-page");
  if (!place || place.dataset.shown) return;
  place.dataset.shown = "yes";
  place.hidden = false;
  const answer = await fetch(place.dataset.from);
  if (answer.status === 204) {
    // No run has finished. Those that are resumed may.
    place.hidden = true;
    delete place.dataset.shown;
  } else if (answer.ok) place.innerHTML = await answer.text();
  else place.querySelector("p").textContent = "Page 1 of the report could not be made; the button Report says why.";
}

const first = document.getElementById("first-page");
if (first && !first.hidden) showFirstPage();
