// What only a browser can do: count down, pause, slide, and say that the console itself does not answer.
"use strict";

let offset_ms = 0; // the clock of Redis minus ours
let paused = false;
let away_since = null;

function words(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s}s`;
  const pad = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}m${pad(s % 60)}s` : `${Math.floor(s / 3600)}h${pad(Math.floor(s / 60) % 60)}m`;
}

function count_down() {
  const now = Date.now() + offset_ms;
  for (const cell of document.querySelectorAll("[data-deadline]")) {
    const left = Number(cell.dataset.deadline) - now;
    const clock = cell.querySelector(".clock");
    clock.textContent = left > 0 ? words(left) : "overdue";
    clock.classList.toggle("overdue", left <= 0);
    const part = Math.max(0, Math.min(1, left / Number(cell.dataset.timeout)));
    cell.querySelector(".fill").setAttribute("width", (part * 100).toFixed(1));
  }
}

function set_clock() {
  const live = document.querySelector("#live[data-now]");
  if (live && Number(live.dataset.now) > 0) offset_ms = Number(live.dataset.now) - Date.now();
}

function refresh() {
  htmx.trigger(document.body, "again");
}

function local_time(ms) {
  const d = new Date(Number(ms));
  const pad = (n, width) => String(n).padStart(width, "0");
  return `${d.getFullYear()}-${pad(d.getMonth() + 1, 2)}-${pad(d.getDate(), 2)}T${pad(d.getHours(), 2)}:` +
    `${pad(d.getMinutes(), 2)}:${pad(d.getSeconds(), 2)}.${pad(d.getMilliseconds(), 3)}`;
}

document.addEventListener("DOMContentLoaded", () => {
  set_clock();
  setInterval(count_down, 1000);

  for (const slider of document.querySelectorAll("[data-slider]")) {
    const form = slider.form;
    const text = form.querySelector("[name=at]");
    // The field is in the time zone of this browser while the slider moves; what is sent is exact.
    slider.addEventListener("input", () => { text.value = local_time(slider.value).replace("T", " "); });
    slider.addEventListener("change", () => { text.value = slider.value; form.requestSubmit(); });
  }

  const button = document.querySelector("[data-pause]");
  if (button) {
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      button.textContent = paused ? "Go on" : "Pause";
      if (!paused) refresh();
    });
  }
});

document.addEventListener("htmx:sseBeforeMessage", (event) => {
  if (event.target.id !== "changes") return;
  // A change that was made while the page was read comes once more.
  const id = /id="(c\d+)"/.exec(event.detail.data);
  if (paused || (id && document.getElementById(id[1]))) event.preventDefault();
});
document.addEventListener("htmx:beforeRequest", (event) => {
  if (paused && event.target.id === "live") event.preventDefault();
});
document.addEventListener("htmx:sseMessage", (event) => {
  if (event.target.id !== "changes") return;
  while (event.target.children.length > 300) event.target.lastElementChild.remove();
});
document.addEventListener("htmx:afterSwap", set_clock);

document.addEventListener("htmx:sseError", () => {
  if (away_since === null) away_since = new Date();
  const status = document.getElementById("status");
  const chip = document.createElement("span");
  chip.className = "chip bad";
  chip.textContent = `stale since ${away_since.toTimeString().slice(0, 8)}: the console does not answer`;
  status.replaceChildren(chip);
});
document.addEventListener("htmx:sseOpen", () => {
  if (away_since === null) return;
  away_since = null;
  refresh();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "/") {
    const field = document.querySelector("#filter, [data-filter]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  } else if (event.key === "p") {
    document.querySelector("[data-pause]")?.click();
  }
});
