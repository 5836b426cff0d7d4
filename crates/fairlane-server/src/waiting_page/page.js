(() => {
  'use strict';
  const status = document.getElementById('status');
  const live = document.getElementById('live');
  const bar = document.getElementById('bar');
  const title = document.title;
  const first = `first position of ${location.pathname}`;
  const SAY_EVERY_MS = 30000;
  let saidAt = Date.now();
  let kind = status.dataset.kind;

  const showTimes = () => {
    for (const time of document.querySelectorAll('time')) {
      time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: 'full', timeStyle: 'short' });
    }
  };

  const showProgress = (position) => {
    if (!position) return;
    document.title = `${position} · ${title}`;
    const begin = Math.max(Number(sessionStorage.getItem(first)) || 0, position);
    sessionStorage.setItem(first, begin);
    bar.max = begin;
    bar.value = begin - position;
    bar.hidden = false;
  };

  // A screen reader hears changes of state at once, and the position now and then.
  const say = (update) => {
    if (update.kind === kind && Date.now() - saidAt < SAY_EVERY_MS) return;
    [kind, saidAt, live.textContent] = [update.kind, Date.now(), update.say];
  };

  const show = (event) => {
    const update = JSON.parse(event.data);
    status.innerHTML = update.html;
    status.dataset.kind = update.kind;
    showTimes();
    showProgress(update.position);
    say(update);
    return update;
  };

  const loadAgain = () => location.replace(location.href);
  showTimes();
  showProgress(Number(status.dataset.position));
  if (!('EventSource' in window) || status.dataset.kind === 'ended') {
    setTimeout(loadAgain, Number(status.dataset.seconds) * 1000);
    return;
  }
  const events = new EventSource(`${location.pathname}/events`);
  events.addEventListener('progress', show);
  events.addEventListener('ended', (event) => {
    events.close();
    if (show(event).kind === 'turn') loadAgain();
  });
  events.addEventListener('error', () => {
    if (events.readyState === EventSource.CLOSED) setTimeout(loadAgain, Number(status.dataset.seconds) * 1000);
  });
})();
