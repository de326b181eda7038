// SPDX-License-Identifier: GPL-3.0-or-later
// A set of results while its runs go on: asks every second, and takes the table anew when something has changed.
"use strict";

const EVERY_MS = 1000;
const place = location.pathname;
const title = document.title;
let telling = false;
let leaving = false;

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return answer;
}

async function takeAnew() {
  const query = new URLSearchParams(location.search);
  query.set("part", "map");
  const text = await (await ask(`${place}?${query}`)).text();
  const focused = document.activeElement && document.activeElement.id;
  const scrolled = document.querySelector("#live .wide");
  const left = scrolled ? scrolled.scrollLeft : 0;
  const opened = new Map([...document.querySelectorAll("#live details")].map((one) => [one.id, one.open]));
  document.getElementById("live").outerHTML = text;
  for (const one of document.querySelectorAll("#live details")) one.open = opened.get(one.id) ?? one.open;
  const table = document.querySelector("#live .wide");
  if (table) table.scrollLeft = left;
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
  document.getElementById("main").dispatchEvent(new Event("swapped"));
}

function tell(state) {
  document.title = `${state.stopped ? "Stopped" : "Done"} · ${title}`;
  if (telling) new Notification(state.title, { body: state.progress });
}

async function look() {
  if (leaving) return;
  let again = true;
  try {
    const state = await (await ask(`${place}/state`)).json();
    const live = document.getElementById("live");
    if (state.version !== live.dataset.version && !live.querySelector("select:focus")) await takeAnew();
    again = state.done < state.total;
    document.getElementById("to-go").textContent = state.to_go;
    for (const id of ["stop", "notify"]) if (document.getElementById(id)) document.getElementById(id).hidden = !again;
    const resume = document.getElementById("resume");
    if (resume) resume.hidden = again || !(state.stopped + state.failed);
    if (again) document.title = `${state.done}/${state.total} · ${title}`;
    else {
      tell(state);
      showFirstPage();
    }
  } catch (error) {
    document.getElementById("status").textContent = `no answer from the server (${error.message}); asking again`;
  }
  document.getElementById("main").setAttribute("aria-busy", again);
  if (again) setTimeout(look, EVERY_MS);
}

document.getElementById("notify").addEventListener("click", async (event) => {
  telling = (await Notification.requestPermission()) === "granted";
  event.target.textContent = telling ? "You will be told" : "Your browser does not let this page tell you";
});
// What is deleted has no state to ask for.
document.addEventListener("submit", (event) => { leaving = event.target.action.includes("/page/delete/"); });
const begun = document.getElementById("live").dataset;
if (begun.done !== begun.total) look();
else document.getElementById("main").setAttribute("aria-busy", "false");
