// Does what only a browser can do: count down, pause, read the slider, say that the console does not answer.
"use strict";

const TOO_OLD_MS = 15_000; // a page is read again every 10 s

let offset_ms = 0; // the clock of Redis minus that of the browser
let paused = false;
let made_at = Date.now(); // when the shown content was made
let newest = 0; // the last change that the page Changes has shown

const spoken = JSON.parse(document.body.dataset.words ?? "{}"); // the texts of this script in the language of the page

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
    clock.textContent = left > 0 ? words(left) : spoken.overdue;
    clock.classList.toggle("overdue", left <= 0);
    const part = Math.max(0, Math.min(1, left / Number(cell.dataset.timeout)));
    cell.querySelector(".fill").setAttribute("width", (part * 100).toFixed(1));
  }
}

// A page that could not be read again says how old it is, and does not count down.
function tick() {
  const live = document.querySelector("#live[hx-get]");
  if (live && !paused && Date.now() - made_at > TOO_OLD_MS) {
    const chip = document.createElement("span");
    chip.className = "chip bad";
    chip.textContent = spoken.stale.replace("TIME", new Date(made_at).toTimeString().slice(0, 8));
    document.getElementById("status").replaceChildren(chip);
  } else {
    count_down();
  }
}

function note_new_page() {
  made_at = Date.now();
  const live = document.querySelector("#live[data-now]");
  if (live && Number(live.dataset.now) > 0) offset_ms = Number(live.dataset.now) - Date.now();
  const wrong = document.querySelector("[data-wrong]");
  if (wrong) document.title = document.title.replace(/^(\(\d+\) )?/, Number(wrong.dataset.wrong) ? `(${wrong.dataset.wrong}) ` : "");
  const before = newest;
  for (const row of document.querySelectorAll("#changes > .change")) {
    const seq = Number(row.id.slice(1));
    row.classList.toggle("new", before > 0 && seq > before);
    newest = Math.max(newest, seq);
  }
}

function refresh() {
  if (!document.hidden) htmx.trigger(document.body, "again");
}

function follow_server() {
  const { events, namespace, position, rules } = document.body.dataset;
  if (!events) return;
  const is_list = "namespaces" in document.body.dataset;
  const known = new Map(); // namespace -> the state that this page shows
  share_stream(events, namespace, (state) => {
    const shown = known.get(state.namespace) ?? (is_list ? { ...state } : { position, rules, status: null });
    known.set(state.namespace, shown);
    if (is_list) document.getElementById("status").replaceChildren();
    else document.getElementById("status").innerHTML = state.status; // made by our templates, which escape
    if (state.rules !== shown.rules) htmx.trigger(document.body, "rules");
    const is_new = state.position !== shown.position || state.rules !== shown.rules ||
      (shown.status !== null && state.status !== shown.status);
    Object.assign(shown, state);
    if (is_new) refresh();
  }, () => { if (is_list) refresh(); else htmx.trigger(document.body, "rules"); });
  document.addEventListener("visibilitychange", refresh);
}

// The field shows the time of the slider in the zone of the page, with its offset, so that it means one instant.
function slider_time(slider) {
  const minutes = Number(slider.dataset.offsetMin);
  const pad = (n) => String(Math.floor(Math.abs(n))).padStart(2, "0");
  const text = new Date(Number(slider.value) + minutes * 60_000).toISOString().slice(0, 23).replace("T", " ");
  return `${text}${minutes < 0 ? "-" : "+"}${pad(minutes / 60)}:${pad(minutes % 60)}`;
}

// Replaces a time like "-2h" in the address: it would mean another instant for a person who opens the address later.
function pin_instant() {
  const address = new URL(location.href);
  const at = document.body.dataset.at;
  if (!at || !address.searchParams.has("at") || address.searchParams.get("at") === at) return;
  address.searchParams.set("at", at);
  history.replaceState(history.state, "", address);
}

function offer_zone_of_browser() {
  const select = document.getElementById("zone");
  if (!select) return;
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (name && ![...select.options].some((one) => one.value === name)) select.add(new Option(spoken.browser.replace("ZONE", name), name));
  select.addEventListener("change", () => select.form.requestSubmit());
}

// Buttons that copy. Browsers let a page write to the clipboard only at a secure address, or on this machine.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1500);
});

document.addEventListener("DOMContentLoaded", () => {
  if (navigator.clipboard) document.documentElement.classList.add("copies");
  note_new_page();
  pin_instant();
  offer_zone_of_browser();
  follow_server();
  setInterval(tick, 1000);

  for (const slider of document.querySelectorAll("[data-slider]")) {
    const form = slider.form;
    const text = form.querySelector("[name=at]");
    slider.addEventListener("input", () => { text.value = slider_time(slider); });
    slider.addEventListener("change", () => { text.value = slider.value; form.requestSubmit(); });
  }

  const button = document.querySelector("[data-pause]");
  if (button) {
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      button.textContent = paused ? spoken.go_on : spoken.pause;
      if (!paused) refresh();
    });
  }
});

// A range that is selected in a chart opens the changes within it. Without a mouse, the page Changes has fields for it.
document.addEventListener("pointerdown", (event) => {
  const chart = event.target.closest?.("svg[data-range]");
  if (!chart || event.button !== 0) return;
  event.preventDefault();
  const { left, width } = chart.getBoundingClientRect();
  const { width: units, height } = chart.viewBox.baseVal;
  const minute_at = (x) => Math.max(0, Math.min(59, Math.floor((x - left) / width * 60)));
  const begin = minute_at(event.clientX);
  const drawn = chart.appendChild(document.createElementNS(chart.namespaceURI, "rect"));
  drawn.setAttribute("class", "drawn");
  drawn.setAttribute("height", height);
  let [first, last] = [begin, begin];
  const draw = ({ clientX }) => {
    [first, last] = [begin, minute_at(clientX)].sort((a, b) => a - b);
    drawn.setAttribute("x", first * units / 60);
    drawn.setAttribute("width", (last - first + 1) * units / 60);
  };
  draw(event);
  const end = new AbortController();
  addEventListener("pointermove", draw, end);
  addEventListener("pointercancel", () => { end.abort(); drawn.remove(); }, end);
  addEventListener("pointerup", () => {
    end.abort();
    const zero = Number(chart.dataset.lastMinute) - 59;
    const range = new URLSearchParams({ since: (zero + first) * 60_000, until: (zero + last + 1) * 60_000 - 1 });
    location.assign(`${chart.dataset.range}?${range}`);
  }, end);
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (paused && event.target.id === "live") event.preventDefault();
});
document.addEventListener("htmx:afterSwap", note_new_page);

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    document.getElementById("search")?.focus();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "/") {
    const field = document.querySelector("#filter, [data-filter]") || document.getElementById("search");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  } else if (event.key === "p") {
    document.querySelector("[data-pause]")?.click();
  }
});
