// All tabs of a browser share one stream of events, because browsers allow six connections to a host over HTTP/1.1.
// The tab that holds a lock reads the stream and passes each event on; when this tab closes, another tab gets the lock.
"use strict";

// Calls hear(state) with each state of the server, and ended() when the session is over.
// namespace: of this page; undefined: the page shows all namespaces, or the console has only one.
function share_stream(address, namespace, hear, ended) {
  let source = null;
  let pass_on = () => {};
  const last = new Map(); // namespace -> its last state

  const is_ours = (of) => namespace === undefined || !of || of === namespace;
  const note = (state) => { if (is_ours(state.namespace)) hear(state); };
  const end = (of) => { if (is_ours(of)) ended(); };

  function read() {
    source = new EventSource(address);
    source.addEventListener("state", (event) => {
      const state = JSON.parse(event.data);
      last.set(state.namespace, state);
      note(state);
      pass_on({ state });
    });
    source.addEventListener("ended", ({ data }) => {
      if (data) {
        last.delete(data);
      } else {
        last.clear();
        source.close();
      }
      end(data);
      pass_on({ ended: true, of: data });
    });
  }

  // Without locks (an origin that is not secure) each tab reads a stream of its own while it is visible.
  if (!navigator.locks || !window.BroadcastChannel) {
    const follow_visibility = () => {
      if (document.hidden) { source?.close(); source = null; } else if (source === null) read();
    };
    document.addEventListener("visibilitychange", follow_visibility);
    follow_visibility();
    return;
  }

  const channel = new BroadcastChannel(address);
  channel.addEventListener("message", ({ data }) => {
    if (data.asks && source !== null) answer(data.namespace);
    else if (data.ended) end(data.of);
    else if (data.state && source === null) note(data.state);
  });

  function answer(asked) {
    for (const state of last.values()) if (!asked || state.namespace === asked) channel.postMessage({ state });
    if (!asked || last.has(asked)) return;
    source.close(); // a user has logged in to this namespace since: the stream must begin again
    read();
  }

  channel.postMessage({ asks: true, namespace }); // a tab that has just opened need not wait for the next event
  navigator.locks.request(address, () => new Promise(() => {
    pass_on = (message) => channel.postMessage(message);
    read();
  }));
}
