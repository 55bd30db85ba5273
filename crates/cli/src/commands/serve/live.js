// Shows a run as it goes on. The server makes the HTML; without this script the page is a still picture of it.
const view = document.getElementById('live');
const lost = document.getElementById('lost');
const events = new EventSource(view.dataset.events);

function show(html) {
  const left = [...view.querySelectorAll('.scroll')].map((e) => e.scrollLeft);
  view.innerHTML = html;
  view.querySelectorAll('.scroll').forEach((e, n) => { e.scrollLeft = left[n] ?? 0; });
  lost.hidden = true;
}

events.addEventListener('state', (e) => show(e.data));
events.addEventListener('end', (e) => {
  events.close();
  show(e.data);
  // The report has taken the place of this page.
  location.reload();
});
// A browser tries again by itself, unless it got an answer that says no.
events.addEventListener('error', () => {
  lost.textContent = events.readyState === EventSource.CLOSED
    ? 'The server refuses this page: open the address that it has printed.'
    : 'The server does not answer. The page goes on when it does.';
  lost.hidden = false;
});
