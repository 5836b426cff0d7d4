// The page of the box office: the waiting room, the seats and the boards, live.
'use strict';

const element = (id) => document.getElementById(id);
const seats = element('seats');
const kept = {
  get: (name) => { try { return localStorage.getItem('box-office-' + name); } catch { return null; } },
  set: (name, value) => { try { value === null ? localStorage.removeItem('box-office-' + name) : localStorage.setItem('box-office-' + name, value); } catch { /* Private windows keep nothing. */ } },
};

const state = {
  user: kept.get('user') || crypto.getRandomValues(new Uint32Array(4)).join('-'),
  queue: null,          // the last status of the place in the waiting room
  firstPosition: 0,     // the position when the wait began
  activeUntil: 0,
  concerts: [],
  schedules: new Map(), // id -> {title, date, seats, price}
  selected: null,
  order: null,          // {id, token, scheduleId, seat, price, status, until}
  busy: false,
};
kept.set('user', state.user);

// --- requests -------------------------------------------------------------------------------------

async function api(method, path, token, body) {
  const headers = {};
  if (token) headers.authorization = 'Bearer ' + token;
  if (body) headers['content-type'] = 'application/json';
  try {
    const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
    const data = response.status === 204 ? {} : await response.json();
    return { ok: response.ok, status: response.status, data };
  } catch {
    const data = { code: 'offline', message: 'The shop cannot be reached.', cure: 'We keep trying.' };
    return { ok: false, status: 0, data };
  }
}

function complain(data) {
  element('error').textContent = data ? `${data.message} ${data.cure || ''}` : '';
}

function announce(text) {
  element('announce').textContent = text;
}

// --- the waiting room -----------------------------------------------------------------------------

let pollTimer = 0;

async function join() {
  const answer = await api('POST', '/api/queue/token', null, { userId: state.user });
  if (!answer.ok) {
    complain(answer.data);
    if (kept.get('joined')) pollTimer = setTimeout(join, 2000);
    return;
  }
  kept.set('joined', 'yes');
  onQueue(answer.data);
}

async function poll() {
  const answer = await api('GET', '/api/queue/status', state.queue.token);
  if (answer.ok) return onQueue(answer.data);
  if (!state.order) complain(answer.data);
  pollTimer = setTimeout(poll, 2000);
}

function onQueue(queue) {
  const before = state.queue && state.queue.status;
  if (queue.status === 'WAITING') {
    if (before !== 'WAITING') state.firstPosition = queue.position;
    if (before !== 'WAITING' || queue.position !== state.queue.position) announce(`Position ${queue.position} of ${queue.waiting}`);
  }
  if (queue.status === 'ACTIVE') {
    state.activeUntil = Date.now() + queue.activeForSec * 1000;
    if (before === 'WAITING') announce('It is your turn. Choose a seat.');
  }
  state.queue = queue.status === 'EXPIRED' ? null : queue;
  if (!state.queue) kept.set('joined', null);
  complain(null);
  render();
  clearTimeout(pollTimer);
  if (state.queue) pollTimer = setTimeout(poll, Math.max(500, queue.pollAfterMs));
}

async function leave() {
  clearTimeout(pollTimer);
  const token = state.queue.token;
  state.queue = null;
  kept.set('joined', null);
  render();
  await api('DELETE', '/api/queue/token', token);
}

// --- the purchase ---------------------------------------------------------------------------------

const isActive = () => Boolean(state.queue && state.queue.status === 'ACTIVE');

async function hold(number) {
  const schedule = state.schedules.get(state.selected);
  if (!isActive() || state.busy || (state.order && state.order.status !== 'CONFIRMED') || schedule.seats[number - 1] !== 'f') return;
  state.busy = true;
  const answer = await api('POST', '/api/reservations', state.queue.pass, { scheduleId: state.selected, seat: number });
  state.busy = false;
  if (!answer.ok) {
    complain(answer.data);
    if (answer.status === 401) poll();
    loadSeats(state.selected);
    return;
  }
  const held = answer.data;
  state.order = {
    id: held.reservationId, token: held.paymentToken, scheduleId: held.scheduleId, seat: held.seat,
    price: held.price, status: 'HELD', until: Date.now() + held.heldForSec * 1000,
  };
  keepOrder();
  complain(null);
  setLetter(held.scheduleId, number, 'h');
  render();
  element('turn-title').focus();
}

async function pay() {
  if (state.busy) return;
  state.busy = true;
  state.order.status = 'PAYING';
  complain(null);
  render();
  const answer = await api('POST', `/api/reservations/${state.order.id}/pay`, state.order.token);
  state.busy = false;
  if (answer.ok && answer.data.status === 'CONFIRMED') return onConfirmed();
  if (answer.ok || answer.status === 0 || answer.data.code === 'payment-under-way') return void setTimeout(refreshOrder, 1000);
  complain(answer.data);
  refreshOrder();
}

// Finds out how the reservation stands, after a reload or a lost answer.
async function refreshOrder() {
  if (!state.order) return;
  const answer = await api('GET', `/api/reservations/${state.order.id}`, state.order.token);
  if (!answer.ok) {
    if (answer.status === 0 || answer.status === 503) return void setTimeout(refreshOrder, 2000);
    return dropOrder();
  }
  const found = answer.data;
  if (found.status === 'CONFIRMED') return onConfirmed();
  if (found.status === 'PAYING') {
    state.order.status = 'PAYING';
    setTimeout(refreshOrder, 1000);
  } else if (found.status === 'HELD') {
    state.order.status = 'HELD';
    state.order.until = Date.now() + found.heldForSec * 1000;
  } else {
    complain({ message: 'The time for this seat is over.', cure: 'Choose a seat again.' });
    return dropOrder();
  }
  render();
}

function onConfirmed() {
  const isNew = state.order.status !== 'CONFIRMED' || !state.order.shown;
  state.order.status = 'CONFIRMED';
  state.order.shown = true;
  keepOrder();
  setLetter(state.order.scheduleId, state.order.seat, 's');
  complain(null);
  render();
  if (isNew) element('turn-title').focus();
}

async function cancel() {
  if (state.busy) return;
  state.busy = true;
  const order = state.order;
  const answer = await api('DELETE', `/api/reservations/${order.id}`, order.token);
  state.busy = false;
  if (!answer.ok) complain(answer.data);
  if (answer.ok) {
    announce(answer.data.refunded ? 'Cancelled. Your points are on their way back.' : 'The seat is free again.');
    setLetter(order.scheduleId, order.seat, 'f');
    dropOrder();
  } else {
    refreshOrder();
  }
}

function dropOrder() {
  const order = state.order;
  state.order = null;
  keepOrder();
  render();
  if (order) loadSeats(order.scheduleId);
}

function keepOrder() {
  kept.set('order', state.order ? JSON.stringify(state.order) : null);
}

// --- what is shown --------------------------------------------------------------------------------

const clock = (ms) => {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
};
const dateText = (date) => new Intl.DateTimeFormat('en', { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' }).format(new Date(date + 'T00:00:00Z'));
const dayText = (date) => new Intl.DateTimeFormat('en', { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'UTC' }).format(new Date(date + 'T00:00:00Z'));
const rowOf = (number) => String.fromCharCode(65 + Math.floor((number - 1) / 10));
const placeOf = (number) => (number - 1) % 10 + 1;
const seatText = (number) => `Row ${rowOf(number)}, seat ${placeOf(number)}`;

function waitText(queue) {
  if (queue.paused) return `Admission is paused: ${queue.paused}`;
  const most = queue.mostWaitSec;
  if (most === null) return 'We are estimating your wait. Keep this page open; your place is kept if you reload.';
  const minutes = Math.ceil(most / 60);
  const time = most < 60 ? 'less than a minute' : minutes === 1 ? 'about a minute' : `at most ${minutes} minutes`;
  return `Your turn comes in ${time}. Keep this page open; your place is kept if you reload.`;
}

// What the panel says in each situation.
function panel() {
  const order = state.order, queue = state.queue;
  if (order && order.status === 'CONFIRMED') {
    return {
      step: 'Done', title: 'The seat is yours', text: 'We look forward to seeing you.', done: true, ticket: true,
      act: isActive() ? ['Buy another seat', () => { state.order = null; keepOrder(); render(); }] : ['Join again for another seat', () => { state.order = null; keepOrder(); join(); }],
      undo: ['Cancel and refund', cancel],
    };
  }
  if (order) {
    const isPaying = order.status === 'PAYING', schedule = state.schedules.get(order.scheduleId);
    return {
      step: 'Step 3 of 3', title: seatText(order.seat), figure: isPaying ? null : [clock(order.until - Date.now()), 'left to pay'],
      text: (schedule ? `${schedule.title}, ${dateText(schedule.date)}. ` : '') + (isPaying ? 'The payment is under way.' : 'This seat is held for you.'),
      act: [isPaying ? 'Paying …' : `Pay ${order.price} points`, pay], actDisabled: isPaying,
      undo: isPaying ? null : ['Give the seat back', cancel],
    };
  }
  if (isActive()) {
    return {
      step: 'Step 2 of 3', title: 'It is your turn', figure: [clock(state.activeUntil - Date.now()), 'left to choose'],
      text: 'Choose a concert and a free seat. It is then held while you pay.', undo: ['Leave', leave],
    };
  }
  if (queue) {
    const gone = state.firstPosition > 1 ? 100 * (state.firstPosition - queue.position) / (state.firstPosition - 1) : 0;
    return {
      step: 'Step 1 of 3', title: 'You are in the waiting room', figure: [queue.position.toLocaleString('en'), `of ${queue.waiting.toLocaleString('en')} waiting`],
      progress: gone, text: waitText(queue), undo: ['Leave', leave],
    };
  }
  return {
    step: 'Step 1 of 3', title: 'Join the waiting room',
    text: 'Everyone is served in the order in which they came. Your place is kept if you reload this page.', act: ['Join the waiting room', join],
  };
}

let actions = {};

function render() {
  const shown = panel();
  set('turn-step', shown.step);
  set('turn-title', shown.title);
  set('turn-text', shown.text);
  element('turn').classList.toggle('done', Boolean(shown.done));
  element('figure').hidden = !shown.figure;
  if (shown.figure) { set('figure-value', shown.figure[0]); set('figure-unit', shown.figure[1]); }
  element('progress').hidden = shown.progress === undefined;
  element('progress').value = shown.progress || 0;
  element('ticket').hidden = !shown.ticket;
  if (shown.ticket) renderTicket();
  for (const name of ['act', 'undo']) {
    const button = element(name), action = shown[name];
    if (!action && document.activeElement === button) element('turn-title').focus();
    button.hidden = !action;
    if (action) set(name, action[0]);
    actions[name] = action && action[1];
  }
  element('act').disabled = Boolean(shown.actDisabled);
  renderSeats();
}

function set(id, text) {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
}

function renderTicket() {
  const order = state.order, schedule = state.schedules.get(order.scheduleId);
  set('ticket-title', schedule ? `${schedule.title}, ${dateText(schedule.date)}` : '');
  set('ticket-seat', seatText(order.seat));
  set('ticket-id', order.id);
}

function renderSchedules() {
  const list = element('schedules');
  if (list.children.length !== state.schedules.size) {
    list.replaceChildren(...[...state.schedules].map(([id]) => {
      const button = make('button', 'schedule');
      button.type = 'button';
      button.dataset.id = id;
      button.append(make('span', 'schedule-title'), make('span', 'schedule-date'), make('span', 'schedule-left'));
      button.addEventListener('click', () => { state.selected = id; renderSchedules(); renderSeats(); });
      const item = make('li');
      item.append(button);
      return item;
    }));
  }
  for (const button of list.querySelectorAll('button')) {
    const schedule = state.schedules.get(button.dataset.id);
    const free = [...schedule.seats].filter((letter) => letter === 'f').length;
    const isSold = [...schedule.seats].every((letter) => letter === 's');
    const left = button.querySelector('.schedule-left');
    button.setAttribute('aria-pressed', String(button.dataset.id === state.selected));
    button.querySelector('.schedule-title').textContent = schedule.title;
    button.querySelector('.schedule-date').textContent = dayText(schedule.date);
    left.textContent = isSold ? 'Sold out' : free === 0 ? 'None free now' : `${free} free`;
    left.className = 'schedule-left' + (free === 0 ? ' none' : free <= 10 ? ' few' : '');
  }
}

const WORDS = { f: ['free', ''], h: ['held', '–'], s: ['sold', '✕'], m: ['yours', '✓'] };

function renderSeats() {
  const schedule = state.schedules.get(state.selected);
  if (!schedule) return;
  set('seats-title', schedule.title);
  set('plan-text', `${dateText(schedule.date)} · ${schedule.venue} · ${schedule.price} points a seat`);
  if (seats.dataset.id !== state.selected || seats.querySelectorAll('button').length !== schedule.seats.length) buildSeats(schedule);
  const mine = state.order && state.order.scheduleId === state.selected ? state.order.seat : 0;
  const canHold = isActive() && (!state.order || state.order.status === 'CONFIRMED');
  seats.querySelectorAll('button').forEach((button, index) => {
    const number = index + 1, letter = number === mine ? 'm' : schedule.seats[index];
    const [word, sign] = WORDS[letter];
    const className = `seat ${letter === 'm' ? 'mine' : word}`;
    const label = `${seatText(number)}, ${word}`;
    if (button.className !== className) button.className = className;
    if (button.getAttribute('aria-label') !== label) button.setAttribute('aria-label', label);
    const text = sign || String(placeOf(number));
    if (button.textContent !== text) button.textContent = text;
    const isOff = String(!(canHold && letter === 'f'));
    if (button.getAttribute('aria-disabled') !== isOff) button.setAttribute('aria-disabled', isOff);
  });
}

function buildSeats(schedule) {
  seats.dataset.id = state.selected;
  const rows = [];
  for (let number = 1; number <= schedule.seats.length; number++) {
    if (placeOf(number) === 1) {
      const row = make('div', 'seat-row'), name = make('span', 'row-name');
      name.textContent = rowOf(number);
      name.setAttribute('aria-hidden', 'true');
      row.append(name);
      rows.push(row);
    }
    const button = make('button', 'seat');
    button.type = 'button';
    button.dataset.number = number;
    button.tabIndex = number === 1 ? 0 : -1;
    rows[rows.length - 1].append(button);
  }
  seats.replaceChildren(...rows);
}

function renderBoard(id, entries, value) {
  const list = element(id);
  if (!entries.length) {
    const empty = make('li', 'empty');
    empty.textContent = id === 'popular' ? 'Nothing is sold yet.' : 'Nothing is sold out yet.';
    return list.replaceChildren(empty);
  }
  list.replaceChildren(...entries.slice(0, 5).map((entry) => {
    const item = make('li'), rank = make('span', 'rank'), name = make('span', 'rank-name'), date = make('span', 'rank-date'), score = make('span', 'rank-value');
    rank.textContent = entry.rank;
    name.textContent = entry.concertTitle;
    date.textContent = dateText(entry.concertDate);
    score.textContent = value(entry);
    name.append(date);
    item.append(rank, name, score);
    return item;
  }));
}

const seconds = (value) => value < 60 ? `${value.toFixed(1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;

function onBoards(boards) {
  renderBoard('popular', boards.popular, (entry) => `${entry.reservationCount} sold`);
  renderBoard('sold-out', boards.soldOut, (entry) => seconds(entry.soldOutDurationSec));
}

function make(name, className) {
  const made = document.createElement(name);
  if (className) made.className = className;
  return made;
}

// --- loading and events ---------------------------------------------------------------------------

const LETTERS = { FREE: 'f', HELD: 'h', SOLD: 's' };

async function loadSeats(id) {
  const answer = await api('GET', `/api/schedules/${encodeURIComponent(id)}/seats`);
  if (answer.ok) onSeats({ scheduleId: id, seats: answer.data.seats.map((seat) => LETTERS[seat.status]).join('') });
}

function onSeats(changed) {
  const schedule = state.schedules.get(changed.scheduleId);
  if (!schedule) return;
  schedule.seats = changed.seats;
  renderSchedules();
  if (changed.scheduleId === state.selected) renderSeats();
}

function setLetter(id, number, letter) {
  const schedule = state.schedules.get(id);
  if (schedule) onSeats({ scheduleId: id, seats: schedule.seats.slice(0, number - 1) + letter + schedule.seats.slice(number) });
}

async function load() {
  const answer = await api('GET', '/api/concerts');
  if (!answer.ok) {
    complain(answer.data);
    return void setTimeout(load, 2000);
  }
  const found = answer.data.concerts.flatMap((concert) => concert.schedules.map((schedule) => ({ ...schedule, title: concert.title, venue: concert.venue })));
  found.sort((one, other) => one.id < other.id ? -1 : 1);
  for (const schedule of found) {
    const known = state.schedules.get(schedule.id);
    state.schedules.set(schedule.id, { ...schedule, seats: known ? known.seats : 'f'.repeat(schedule.capacity) });
  }
  state.selected = state.selected || (state.order && state.order.scheduleId) || (found[0] && found[0].id);
  renderSchedules();
  render();
  await Promise.all(found.map((schedule) => loadSeats(schedule.id)));
  for (const [path, id] of [['popular', 'popular'], ['sold-out', 'sold-out']]) {
    const board = await api('GET', `/api/rankings/${path}?limit=5`);
    const value = path === 'popular' ? (entry) => `${entry.reservationCount} sold` : (entry) => seconds(entry.soldOutDurationSec);
    if (board.ok) renderBoard(id, board.data.rankings, value);
  }
}

function listen() {
  const events = new EventSource('/api/events');
  const on = (name, handler) => events.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  on('seats', onSeats);
  on('boards', onBoards);
  on('missed', load);
  on('room', (room) => set('room', `${room.active.toLocaleString('en')} shopping · ${room.waiting.toLocaleString('en')} waiting`));
  events.addEventListener('open', () => { if (element('room').textContent === 'Connecting …' || element('room').textContent === 'Reconnecting …') set('room', 'Open'); });
  events.addEventListener('error', () => set('room', 'Reconnecting …'));
}

seats.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (button) hold(Number(button.dataset.number));
});

seats.addEventListener('keydown', (event) => {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10 };
  const buttons = [...seats.querySelectorAll('button')], at = buttons.indexOf(document.activeElement);
  let to = at;
  if (event.key in steps) to = at + steps[event.key];
  else if (event.key === 'Home') to = at - at % 10;
  else if (event.key === 'End') to = Math.min(at - at % 10 + 9, buttons.length - 1);
  else return;
  event.preventDefault();
  if (at >= 0 && buttons[to]) buttons[to].focus();
});

// One seat at a time is in the tab order: the one that had the focus last.
seats.addEventListener('focusin', (event) => {
  for (const button of seats.querySelectorAll('button')) button.tabIndex = button === event.target ? 0 : -1;
});

element('act').addEventListener('click', () => actions.act && actions.act());
element('undo').addEventListener('click', () => actions.undo && actions.undo());

setInterval(() => {
  if (state.order && state.order.status === 'HELD' && Date.now() > state.order.until) refreshOrder();
  if (state.order || isActive()) render();
}, 1000);

try { state.order = JSON.parse(kept.get('order')); } catch { state.order = null; }
render();
listen();
load();
if (state.order) refreshOrder();
if (kept.get('joined')) join();
