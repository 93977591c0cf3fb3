// Keeps the page up to date: follows the stream of changes and loads again what they concern.
'use strict';
(() => {
  const live = document.getElementById('live');
  const text = document.getElementById('live-text');
  const QUIET_MS = 1000; // between two loads, and at least ten times as long as a load takes
  let due = 0;
  let busy = false;
  let next = 0;
  let loaded = Date.now();
  let stream = '';
  let partsLoaded = 0;
  let over = false; // the object of the page is gone
  const PARTS_MS = 5000; // between two loads of parts with rates

  const main = () => document.getElementById('main');
  let watches = main().dataset.watches;
  const show = (state, words) => { live.dataset.state = state; text.textContent = words; live.title = words; };
  const parse = async (url) => {
    const answer = await fetch(url, { headers: { 'X-Part': 'main' } });
    if (!answer.ok && ![404, 503].includes(answer.status)) throw new Error(`status ${answer.status}`);
    return new DOMParser().parseFromString(await answer.text(), 'text/html');
  };

  // Returns a function that finds, in new content, what has the focus now: links have no ids.
  const rememberFocus = () => {
    const one = document.activeElement;
    if (!one || one.id === 'main' || !main().contains(one)) return () => null;
    const key = (two) => [two.id, two.tagName, two.getAttribute('href'), two.getAttribute('aria-label')].join('\n');
    const alike = () => [...main().querySelectorAll(one.tagName)].filter((two) => key(two) === key(one));
    const place = alike().indexOf(one);
    return () => alike()[place] ?? alike()[0] ?? null;
  };
  const focusAgain = (find) => {
    if (!main().contains(document.activeElement)) find()?.focus({ preventScroll: true });
  };

  // Ends a page whose object is gone: it keeps its texts, but no drawing, and is not loaded again.
  const end = (absent) => {
    const note = document.createElement('div');
    note.className = 'note bad';
    note.id = 'gone';
    note.setAttribute('role', 'alert');
    const last = document.createElement('p');
    last.textContent = 'What follows was known last. This page does not change any more.';
    absent.removeAttribute('id');
    note.append(absent, last);
    for (const one of main().querySelectorAll('.gpu-picture, .drawing, .sparkline, .bar, .legend, [data-load]')) one.remove();
    for (const one of main().querySelectorAll('[data-since], [data-left]')) { delete one.dataset.since; delete one.dataset.left; }
    main().prepend(note);
    main().dataset.live = '';
    delete main().dataset.again;
    over = true;
    paint();
  };

  // Replaces the whole content, but keeps the focus, open details and what is being typed.
  const reload = async () => {
    const focus = document.activeElement;
    if (focus && focus.matches('main input, main textarea')) { due = 1; return; }
    const fresh = (await parse(location.href)).getElementById('main');
    if (!fresh) return;
    const absent = fresh.querySelector('#absent');
    if (absent && !main().querySelector('#absent')) { end(absent); return; }
    const open = [...main().querySelectorAll('details')].map((one) => one.open);
    const find = rememberFocus();
    for (const part of fresh.querySelectorAll('[data-load]')) {
      const shown = [...main().querySelectorAll('[data-load]')].find((one) => one.dataset.load === part.dataset.load);
      if (shown) part.replaceChildren(...shown.childNodes);
    }
    main().replaceWith(fresh);
    watches = fresh.dataset.watches;
    paint();
    const now = [...fresh.querySelectorAll('details')];
    if (now.length === open.length) now.forEach((one, place) => { one.open = open[place]; });
    focusAgain(find);
  };

  // Loads the parts of the page that are read on demand.
  const loadParts = async () => {
    for (const part of main().querySelectorAll('[data-load]')) {
      const found = (await parse(part.dataset.load)).getElementById(part.dataset.part);
      if (found && !part.contains(document.activeElement)) part.replaceChildren(found);
    }
  };

  // Replaces the cards of some nodes.
  const patch = async (nodes) => {
    const query = new URLSearchParams(location.search);
    for (const name of nodes) if (document.getElementById(`node-${name}`)) query.append('name', name);
    if (!query.has('name')) return;
    if (main().querySelector('[data-cards="detailed"]')) query.append('detailed', '1');
    const found = await parse(`/parts/nodes?${query}`);
    for (const name of query.getAll('name')) {
      const card = found.getElementById(`node-${name}`);
      const old = document.getElementById(`node-${name}`);
      const find = rememberFocus();
      if (card) old?.replaceWith(card);
      else old?.remove(); // the node does not match the filter any more
      focusAgain(find);
    }
  };

  // Replaces the notes about outages on a page that is not loaded again, such as one with a form.
  const refreshState = async () => {
    const fresh = (await parse('/parts/state')).getElementById('main');
    const notes = fresh?.querySelector('#state');
    if (!notes) return;
    document.getElementById('state')?.replaceWith(notes);
    main().dataset.outages = fresh.dataset.outages ?? '';
    watches = fresh.dataset.watches;
    paint();
  };

  const update = async (change) => {
    const kinds = main().dataset.live.split(' ').filter(Boolean);
    const met = change.kinds.filter((kind) => kind === '*' || kinds.includes(kind));
    if (!kinds.length) { // the page does not change, but what the console and Tessera's parts do
      if (change.kinds.some((kind) => ['*', 'Part', 'Connection'].includes(kind))) await refreshState();
      return;
    }
    if (!met.length) return;
    const drawn = met.every((kind) => kind === 'GPU' || kind === 'Node');
    const cards = main().querySelector('[data-cards]');
    if (drawn && cards && change.nodes.length) await patch(change.nodes);
    if (!drawn || !cards || !change.nodes.length) due = 1;
    else if (!due) due = Date.now() + 10000; // the sums
  };

  const tick = async () => {
    if (over) return;
    const began = Date.now();
    if (!busy && !document.hidden && began - partsLoaded > PARTS_MS && main().querySelector('[data-load]')) {
      busy = true;
      try { await loadParts(); } catch { /* the next tick repeats it */ } finally { busy = false; partsLoaded = Date.now(); }
      return;
    }
    const again = Number(main().dataset.again); // seconds, of a page with figures that are read on request
    if (!due && again && began > loaded + 1000 * again) due = began;
    if (!due || busy || began < due || began < next || document.hidden) return;
    busy = true;
    due = 0;
    loaded = began;
    try { await reload(); } catch { due = Date.now() + 2000; } finally { busy = false; }
    next = Date.now() + Math.max(QUIET_MS, 10 * (Date.now() - began));
  };

  // Shows whether changes arrive: from the console, and from the API server to the console.
  const paint = () => {
    if (over) show('still', 'the object of this page is gone: the page does not change any more');
    else if (stream !== 'open') show('off', 'the console does not answer: it may have ended');
    else if (watches !== 'on') show('off', 'the console does not receive all changes from the API server');
    else if (main().dataset.outages) show('off', main().dataset.outages);
    else if (!main().dataset.live) show('on', 'the console is connected; this page does not change by itself');
    else show('on', 'live: changes of the cluster appear at once');
  };

  const receive = ({ state, change }) => {
    if (state) stream = state;
    if (change) {
      watches = change.watches ?? watches;
      update(change).catch(() => { due = Date.now() + 2000; });
    }
    paint();
  };

  // All tabs share the stream of one worker; without workers each tab has its own.
  const follow = (after) => {
    if (window.SharedWorker) {
      const { port } = new SharedWorker('/static/stream.js');
      port.onmessage = ({ data }) => receive(data);
      port.postMessage({ after });
      window.addEventListener('pagehide', () => port.postMessage({ leave: true }));
      window.addEventListener('pageshow', (event) => { if (event.persisted) location.reload(); });
      return;
    }
    const own = new EventSource(`/stream?after=${after}`);
    own.onopen = () => receive({ state: 'open' });
    own.onerror = () => receive({ state: 'lost' });
    own.onmessage = (event) => receive({ change: JSON.parse(event.data) });
  };

  // Counts down the times until deadlines, and up ages, which the server states in seconds.
  const count = () => {
    for (const one of document.querySelectorAll('[data-left]')) {
      one.dataset.until ??= Date.now() + 1000 * one.dataset.left;
      const seconds = Math.max(Math.ceil((one.dataset.until - Date.now()) / 1000), 0);
      const [small, large] = seconds < 3600 ? ['s', 'min'] : ['min', 'h'];
      const parts = seconds < 3600 ? seconds : Math.floor(seconds / 60);
      one.textContent = parts < 60 ? `${parts} ${small}` : `${Math.floor(parts / 60)} ${large} ${parts % 60} ${small}`;
    }
    for (const one of document.querySelectorAll('[data-since]')) {
      one.dataset.from ??= Date.now() - 1000 * one.dataset.since;
      const seconds = Math.floor((Date.now() - one.dataset.from) / 1000);
      const [size, part, large, small] = seconds < 3600 ? [60, 1, 'min', 's'] : seconds < 86400 ? [3600, 60, 'h', 'min'] : [86400, 3600, 'd', 'h'];
      const text = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / size)} ${large} ${Math.floor(seconds % size / part)} ${small}`;
      if (one.textContent !== text) one.textContent = text;
    }
  };
  setInterval(count, 1000);

  follow(Number(main().dataset.version));
  if (main().dataset.live) setInterval(tick, 200);

  document.addEventListener('change', (event) => {
    if (event.target.matches('form[data-auto] select')) event.target.form.requestSubmit();
  });
})();
