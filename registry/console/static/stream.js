// One stream of events for all tabs of a browser: browsers allow six connections to a host over HTTP/1.1.
// The tab that holds the lock reads it and passes each event on; when that tab closes, another one gets the lock.
"use strict";

// Calls hear(state) with each state of the server, and ended() when the session is over.
function share_stream(address, hear, ended) {
  let source = null;
  let last = null;

  function read(pass_on) {
    source = new EventSource(address);
    source.addEventListener("state", (event) => { last = JSON.parse(event.data); hear(last); pass_on({ state: last }); });
    source.addEventListener("ended", () => { source.close(); ended(); pass_on({ ended: true }); });
  }

  // Without locks (an origin that is not secure) each tab reads a stream of its own while somebody can see it.
  if (!navigator.locks || !window.BroadcastChannel) {
    const follow_visibility = () => {
      if (document.hidden) { source?.close(); source = null; } else if (source === null) read(() => {});
    };
    document.addEventListener("visibilitychange", follow_visibility);
    follow_visibility();
    return;
  }

  const channel = new BroadcastChannel(address);
  channel.addEventListener("message", ({ data }) => {
    if (data.asks && last) channel.postMessage({ state: last });
    else if (data.ended) ended();
    else if (data.state && source === null) hear(data.state);
  });
  channel.postMessage({ asks: true }); // a tab that has just opened need not wait for the next event
  navigator.locks.request(address, () => new Promise(() => read((message) => channel.postMessage(message))));
}
