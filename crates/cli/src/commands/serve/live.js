// Live view of a run. The server makes the HTML; without this script the page is a still picture of it.
const view = document.getElementById('live');
const lost = document.getElementById('lost');
const events = new EventSource(view.dataset.events);

// Whether this connection is one to the server that has made this page: it says first what only the two know.
let known = false;

function stop(why) {
  events.close();
  lost.textContent = why;
  lost.hidden = false;
}

events.addEventListener('open', () => { known = false; });
events.addEventListener('hello', (e) => {
  known = e.data === view.dataset.sign;
  if (!known) stop('Another program answers here now. Open the address that the server has printed.');
});
events.addEventListener('goodbye', () => stop('The server has ended.'));

function show(html) {
  const left = [...view.querySelectorAll('.scroll')].map((e) => e.scrollLeft);
  view.innerHTML = html;
  view.querySelectorAll('.scroll').forEach((e, n) => { e.scrollLeft = left[n] ?? 0; });
  lost.hidden = true;
}

events.addEventListener('state', (e) => { if (known) show(e.data); else stop('Another program answers here now.'); });
events.addEventListener('end', (e) => {
  if (!known) { stop('Another program answers here now.'); return; }
  events.close();
  show(e.data);
  // The report has taken the place of this page.
  location.reload();
});
// A browser tries again by itself, unless it got an answer that says no.
events.addEventListener('error', () => {
  known = false;
  lost.textContent = events.readyState === EventSource.CLOSED
    ? 'The server refuses this page: open the address that it has printed.'
    : 'The server does not answer. The page goes on when it does.';
  lost.hidden = false;
});
