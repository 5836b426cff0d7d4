// Live updates, times in the viewer's zone, confirmations and shortcuts. Every page works without it.

const policy = globalThis.trustedTypes?.createPolicy('fairlane', { createHTML: (text) => text });
const parse = (text) => new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, 'text/html');

// Times: the server writes UTC; the viewer reads local time.
const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
function localize(root) {
  for (const element of root.querySelectorAll('time[datetime]')) {
    const at = new Date(element.getAttribute('datetime'));
    if (Number.isNaN(at.getTime())) continue;
    element.title = element.getAttribute('datetime');
    element.textContent = format.format(at);
  }
}
localize(document);

// Makes one element like another, and leaves alone what has not changed, what has the focus, and what the
// reader has opened.
function morph(from, to) {
  if (from.isEqualNode(to)) return;
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) return from.replaceWith(to.cloneNode(true));
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from === document.activeElement && from.matches('input, select, textarea')) return;
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== 'open') from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  const old = [...from.childNodes];
  const next = [...to.childNodes];
  next.forEach((node, at) => (old[at] ? morph(old[at], node) : from.append(node.cloneNode(true))));
  old.slice(next.length).forEach((node) => node.remove());
}

const status = document.getElementById('live');
const url = document.body.dataset.liveUrl;
let stream;
let isReading = false;
let lastRead = 0;
let lostAt;

function say(text, isLost) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle('lost', isLost);
}

async function read() {
  // A page that is slow to render is read less often.
  if (isReading || performance.now() < lastRead) return;
  isReading = true;
  const start = performance.now();
  try {
    const response = await fetch(location.href, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(10000) });
    if (response.status === 401) return location.reload();
    if (!response.ok) throw new Error(response.statusText);
    const page = parse(await response.text());
    localize(page);
    for (const element of document.querySelectorAll('[data-live]')) {
      const fresh = page.getElementById(element.id);
      if (fresh) morph(element, fresh);
    }
    lostAt = undefined;
    say('Live.', false);
  } catch {
    lose();
  } finally {
    isReading = false;
    lastRead = performance.now() + Math.max(900, 4 * (performance.now() - start));
  }
}

function lose() {
  lostAt ??= new Date();
  say(`Connection lost. These figures are of ${format.format(lostAt)}. Trying again…`, true);
}

function listen() {
  stream?.close();
  stream = undefined;
  if (document.hidden) return;
  stream = new EventSource(url);
  stream.addEventListener('tick', read);
  stream.addEventListener('open', () => { lastRead = 0; read(); });
  stream.addEventListener('error', () => {
    lose();
    // A browser gives up on a stream that was refused.
    if (stream?.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
}

if (url && document.querySelector('[data-live]')) {
  document.addEventListener('visibilitychange', listen);
  addEventListener('pagehide', () => stream?.close());
  addEventListener('pageshow', (event) => event.persisted && listen());
  listen();
} else if (status) {
  say('', false);
}

// Forms with data-confirm ask first.
document.addEventListener('submit', (event) => {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!question || form.dataset.confirmed) return;
  event.preventDefault();
  const dialog = document.createElement('dialog');
  const text = document.createElement('p');
  text.textContent = question;
  text.id = 'question';
  dialog.setAttribute('aria-labelledby', 'question');
  const buttons = document.createElement('div');
  const add = (label, className, act) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = label;
    button.className = className;
    button.addEventListener('click', () => { dialog.close(); act(); });
    buttons.append(button);
  };
  add('Cancel', 'quiet', () => {});
  add('Yes, do it', 'danger', () => { form.dataset.confirmed = '1'; form.requestSubmit(event.submitter); });
  dialog.append(text, buttons);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
});

// Shortcuts: g and a letter leads to a page, / to the search field.
let isGoing = false;
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, select, textarea, dialog')) return;
  if (event.key === '/') {
    const field = document.querySelector('[data-focus]');
    if (field) { event.preventDefault(); field.focus(); }
  } else if (isGoing) {
    isGoing = false;
    document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === 'g') {
    isGoing = true;
    setTimeout(() => { isGoing = false; }, 1500);
  }
});
