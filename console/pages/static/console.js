// Keeps the page up to date: follows the stream of changes and loads again what they concern.
'use strict';
(() => {
  const live = document.getElementById('live');
  const text = document.getElementById('live-text');
  let due = 0;
  let busy = false;

  const main = () => document.getElementById('main');
  const show = (state, words) => { live.dataset.state = state; text.textContent = words; live.title = words; };
  const parse = async (url) => {
    const answer = await fetch(url, { headers: { 'X-Part': 'main' } });
    if (!answer.ok && answer.status !== 404) throw new Error(`status ${answer.status}`);
    return new DOMParser().parseFromString(await answer.text(), 'text/html');
  };

  // Replaces the whole content, but keeps the focus, open details and what is being typed.
  const reload = async () => {
    const focus = document.activeElement;
    if (focus && focus.matches('main input, main textarea')) { due = 1; return; }
    const fresh = (await parse(location.href)).getElementById('main');
    if (!fresh) return;
    const open = [...main().querySelectorAll('details')].map((one) => one.open);
    const id = focus && focus.id;
    main().replaceWith(fresh);
    const now = [...fresh.querySelectorAll('details')];
    if (now.length === open.length) now.forEach((one, place) => { one.open = open[place]; });
    if (id && id !== 'main') document.getElementById(id)?.focus({ preventScroll: true });
  };

  // Replaces the cards of some nodes.
  const patch = async (nodes) => {
    const query = new URLSearchParams(location.search);
    for (const name of nodes) if (document.getElementById(`node-${name}`)) query.append('name', name);
    if (!query.has('name')) return;
    if (main().querySelector('[data-cards="detailed"]')) query.append('detailed', '1');
    const found = await parse(`/parts/nodes?${query}`);
    for (const card of found.querySelectorAll('li.card')) document.getElementById(card.id)?.replaceWith(card);
  };

  const update = async (change) => {
    const kinds = main().dataset.live.split(' ').filter(Boolean);
    const met = change.kinds.filter((kind) => kind === '*' || kinds.includes(kind));
    if (!met.length) return;
    const drawn = met.every((kind) => kind === 'GPU' || kind === 'Node');
    const cards = main().querySelector('[data-cards]');
    if (drawn && cards && change.nodes.length) await patch(change.nodes);
    if (!drawn || !cards || !change.nodes.length) due = 1;
    else if (!due) due = Date.now() + 10000; // the sums
  };

  const tick = async () => {
    if (!due || busy || Date.now() < due || document.hidden) return;
    busy = true;
    due = 0;
    try { await reload(); } catch { due = Date.now() + 2000; } finally { busy = false; }
  };

  if (main().dataset.live) {
    const stream = new EventSource(`/stream?after=${main().dataset.version}`);
    stream.onopen = () => show('on', 'live: changes of the cluster appear at once');
    stream.onerror = () => show('off', 'the console does not answer: it may have ended');
    stream.onmessage = (event) => update(JSON.parse(event.data)).catch(() => { due = Date.now() + 2000; });
    setInterval(tick, 200);
  } else show('still', 'this page does not change by itself');

  document.addEventListener('change', (event) => {
    if (event.target.matches('form[data-auto] select')) event.target.form.requestSubmit();
  });
})();
