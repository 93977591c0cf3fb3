// Follows the stream of changes for all tabs: browsers open at most six connections to one host.
'use strict';
const RECENT = 64; // changes that a tab receives late if it was rendered before they happened
const ports = new Set();
const recent = [];
let stream = null;
let state = '';
let from = 0; // `recent` has all changes after this version

const send = (message) => { for (const port of ports) port.postMessage(message); };
const report = (now) => { state = now; send({ state }); };

const open = (after) => {
  recent.length = 0;
  from = after;
  stream = new EventSource(`/stream?after=${after}`);
  stream.onopen = () => report('open');
  stream.onerror = () => report('lost');
  stream.onmessage = (event) => {
    const change = JSON.parse(event.data);
    recent.push(change);
    if (recent.length > RECENT) from = recent.shift().version;
    send({ change });
  };
};

const leave = (port) => {
  ports.delete(port);
  if (ports.size) return;
  stream.close();
  stream = null;
};

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.leave) { leave(port); return; }
    ports.add(port);
    if (!stream || stream.readyState === EventSource.CLOSED) { open(data.after); return; }
    port.postMessage({ state });
    if (data.after < from) port.postMessage({ change: { kinds: ['*'], nodes: [] } });
    for (const change of recent) if (change.version > data.after) port.postMessage({ change });
  };
};
