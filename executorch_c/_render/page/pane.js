// A pane: the canvas of one view, with pan, zoom, selection and colours.

const KINDS = {delegate: "#c98a00", module: "#6b7f95", quantized: "#d9715f", run: "#8a94a0"};
const INK = "#0c0f12", PAPER = "#ffffff";
const MIN_SCALE = .002, MAX_SCALE = 4, FAINT = .3;

function mix(a, b, share) {
  const part = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
  return "#" + [0, 1, 2].map(i => Math.round(part(a, i) * share + part(b, i) * (1 - share))
    .toString(16).padStart(2, "0")).join("");
}

class Pane {
  constructor(view, page, index) {
    Object.assign(this, {view, page, index, scale: 1, left: 0, top: 0, selected: -1, near: new Set(),
                         found: new Set(), dirty: false});
    this.element = make("div", "graph-pane");
    this.heading = make("div", "graph-pane-name", view.name);
    this.canvas = make("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `graph of ${view.name}: arrows walk along edges, ` +
      "Enter opens and closes a box, plus and minus zoom, 0 fits the graph");
    this.element.append(this.canvas, this.heading);
    if (view.note) this.element.append(make("div", "graph-note", view.note));
    new ResizeObserver(() => this.resize()).observe(this.element);
    listen(this);
  }

  resize() {
    const {width, height} = this.element.getBoundingClientRect();
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1, first = !this.width;
    const before = this.width || width;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (first) this.start();
    else this.left += (width - before) / 2;
    this.paint();
  }

  // Begin at the top of the graph, at a readable size.
  start() {
    const root = this.view.n;
    const fitting = Math.min((this.width - 20) / this.view.w[root], (this.height - 70) / this.view.h[root]);
    this.scale = Math.min(Math.max(fitting, .55), 1.2);
    this.left = (this.width - this.view.w[root] * this.scale) / 2;
    this.top = 34;
    const first = this.view.shown.find(box => box < this.view.n);
    if (this.view.w[root] * this.scale > this.width && first !== undefined)
      this.left = this.width / 2 - (this.view.x[first] + this.view.w[first] / 2) * this.scale;
  }

  fit() {
    const root = this.view.n;
    this.scale = Math.max(Math.min((this.width - 20) / this.view.w[root],
      (this.height - 50) / this.view.h[root], 1.5), MIN_SCALE);
    this.left = (this.width - this.view.w[root] * this.scale) / 2;
    this.top = 34 + (this.height - 44 - this.view.h[root] * this.scale) / 2;
    this.paint();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, MIN_SCALE), MAX_SCALE);
    this.left = x - (x - this.left) * scale / this.scale;
    this.top = y - (y - this.top) * scale / this.scale;
    this.scale = scale;
    this.paint();
  }

  center(box) {
    const {view} = this;
    if (this.scale < .5) this.scale = .9;
    this.left = this.width / 2 - (view.x[box] + view.w[box] / 2) * this.scale;
    const tall = view.h[box] * this.scale > this.height - 60;
    this.top = (tall ? 50 : this.height / 2) - (view.y[box] + (tall ? 0 : view.h[box] / 2)) * this.scale;
    this.paint();
  }

  // The innermost box at a place of the canvas; -1 without one.
  at(x, y) {
    const {view} = this, wx = (x - this.left) / this.scale, wy = (y - this.top) / this.scale;
    for (let i = view.shown.length - 1, best = -1; i >= -1; i--) {
      if (i < 0) return best;
      const box = view.shown[i];
      if (wx < view.x[box] || wy < view.y[box] || wx > view.x[box] + view.w[box] ||
          wy > view.y[box] + view.h[box]) continue;
      if (box < view.n || !view.groups[box - view.n].open) return box;
      if (best < 0 || view.w[box] < view.w[best]) best = box;
    }
    return -1;
  }

  isOpen(box) { return box >= this.view.n && this.view.groups[box - this.view.n].open; }

  // Open or close a group; it stays where it is on the screen.
  flip(box) {
    const {view} = this, x = view.x[box] + view.w[box] / 2, y = view.y[box];
    toggle(view, box - view.n, !this.isOpen(box));
    place(view);
    this.left += (x - view.x[box] - view.w[box] / 2) * this.scale;
    this.top += (y - view.y[box]) * this.scale;
    this.mark();
    this.paint();
  }

  openAll(open) {
    const {view} = this;
    view.groups.forEach((group, g) => { if (g) toggle(view, g, open); group.stale = true; });
    place(view);
    if (this.selected >= 0) this.selected = this.standIn(this.selected);
    this.mark();
    this.fit();
  }

  standIn(box) {
    if (box < this.view.n) return this.view.rep[box];
    let result = box;
    for (let g = this.view.parent[box]; g > 0; g = this.view.parent[this.view.n + g])
      if (!this.view.groups[g].open) result = this.view.n + g;
    return result;
  }

  // Open all groups around a box.
  reveal(box) {
    let changed = false;
    for (let g = this.view.parent[box]; g > 0; g = this.view.parent[this.view.n + g])
      if (!this.view.groups[g].open) { toggle(this.view, g, true); changed = true; }
    if (changed) place(this.view);
  }

  select(box, center = false) {
    if (box >= 0) this.reveal(box);
    this.selected = box;
    this.mark();
    if (center && box >= 0 && this.width) this.center(box);
    this.paint();
  }

  mark() {
    if (this.selected >= 0) this.selected = this.standIn(this.selected);
    this.near = new Set();
    for (const edge of this.view.edges) {
      if (edge.a === this.selected) this.near.add(edge.b);
      if (edge.b === this.selected) this.near.add(edge.a);
    }
  }

  paint() {
    if (this.dirty || !this.width) return;
    this.dirty = true;
    requestAnimationFrame(() => { this.dirty = false; draw(this); });
  }
}

// ---- drawing ----------------------------------------------------------------------------------

function draw(pane) {
  const {view, canvas, scale} = pane, ratio = canvas.width / pane.width;
  const colours = pane.page.theme, context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, pane.width, pane.height);
  context.setTransform(ratio * scale, 0, 0, ratio * scale, pane.left * ratio, pane.top * ratio);
  const seen = {x0: -pane.left / scale, y0: -pane.top / scale};
  seen.x1 = seen.x0 + pane.width / scale;
  seen.y1 = seen.y0 + pane.height / scale;
  const isSeen = box => view.x[box] <= seen.x1 && view.y[box] <= seen.y1 &&
    view.x[box] + view.w[box] >= seen.x0 && view.y[box] + view.h[box] >= seen.y0;
  const visible = view.shown.filter(isSeen);
  for (const box of visible) if (pane.isOpen(box)) drawGroup(context, pane, box, colours);
  drawEdges(context, pane, seen, colours);
  if (scale < FAINT / 2) drawFar(context, pane, visible, colours);
  else for (const box of visible) if (!pane.isOpen(box)) drawBox(context, pane, box, colours);
  for (const box of [...pane.found, ...pane.near].map(one => pane.standIn(one)).concat(pane.selected))
    if (box >= 0 && isSeen(box)) outline(context, pane, box, colours);
}

function rounded(context, x, y, w, h, radius) {
  context.beginPath();
  if (context.roundRect) context.roundRect(x, y, w, h, radius);
  else context.rect(x, y, w, h);
}

function write(context, text, x, y, room) {
  const fitting = Math.floor(room / 6.5);
  context.fillText(text.length > fitting ? text.slice(0, Math.max(fitting - 1, 1)) + "\u2026" : text, x, y);
}

function drawGroup(context, pane, box, colours) {
  const {view, scale} = pane, x = view.x[box], y = view.y[box], kind = view.groups[box - view.n].kind;
  const colour = KINDS[kind] || KINDS.module;
  rounded(context, x, y, view.w[box], view.h[box], 8);
  context.fillStyle = mix(colour, colours.back, kind === "delegate" ? .16 : .07);
  context.fill();
  context.lineWidth = kind === "delegate" ? 1.6 : 1;
  context.setLineDash(kind === "quantized" || kind === "run" ? [5, 4] : []);
  context.strokeStyle = mix(colour, colours.back, .75);
  context.stroke();
  context.setLineDash([]);
  if (scale < FAINT) return;
  context.font = "600 11px system-ui, sans-serif";
  context.fillStyle = colours.muted;
  const left = Math.max(x, (-pane.left) / scale), right = Math.min(x + view.w[box], (pane.width - pane.left) / scale);
  write(context, `\u2212 ${title(view, box)}`, left + 9, y + 16, right - left - 18);
}

function curve(context, from, to) {
  const middle = (from[1] + to[1]) / 2;
  context.bezierCurveTo(from[0], middle, to[0], middle, to[0], to[1]);
}

function trace(context, view, edge, far) {
  const {a, b} = edge, start = [view.x[a] + view.w[a] / 2, view.y[a] + view.h[a]];
  const end = [view.x[b] + view.w[b] / 2, view.y[b]];
  context.moveTo(...start);
  if (far && !edge.points.length) { context.lineTo(...end); return; }
  if (edge.gap !== null && end[0] > start[0] && end[1] < start[1]) {
    const side = edge.gap;
    context.bezierCurveTo(start[0], start[1] + 30, side, start[1] + 30, side, start[1] - 20);
    context.lineTo(side, end[1]);
    context.bezierCurveTo(side, end[1] - 26, end[0], end[1] - 26, ...end);
    return;
  }
  if (end[1] < start[1] - 1 && !edge.points.length) {  // backwards: around the right side
    const side = Math.max(view.x[a] + view.w[a], view.x[b] + view.w[b]) + 40;
    context.bezierCurveTo(start[0], start[1] + 40, side, start[1] + 40, side, (start[1] + end[1]) / 2);
    context.bezierCurveTo(side, end[1] - 40, end[0], end[1] - 40, ...end);
    return;
  }
  let last = start;
  const points = end[1] < start[1] - 1 ? [...edge.points].reverse() : edge.points;
  for (const [x, y, high] of points) {
    curve(context, last, [x, y]);
    context.lineTo(x, y + high);
    last = [x, y + high];
  }
  curve(context, last, end);
}

function drawEdges(context, pane, seen, colours) {
  const {view, scale, selected} = pane, small = scale < FAINT / 2;
  const chosen = [], passes = edge => {
    const {a, b} = edge;
    const xs = [view.x[a], view.x[b], ...edge.points.map(p => p[0])], y = view.y[a], z = view.y[b];
    return Math.min(y, z) <= seen.y1 && Math.max(y + view.h[a], z + view.h[b]) >= seen.y0 &&
      Math.min(...xs) <= seen.x1 && Math.max(...xs, view.x[a] + view.w[a], view.x[b] + view.w[b]) >= seen.x0;
  };
  context.beginPath();
  for (const edge of view.edges) {
    if (edge.a === selected || edge.b === selected) { chosen.push(edge); continue; }
    if (edge.far || !passes(edge)) continue;
    trace(context, view, edge, small);
  }
  context.strokeStyle = colours.edge;
  context.lineWidth = small ? Math.max(1, .35 / scale) : 1.2;
  context.stroke();
  if (!small) for (const edge of view.edges) if (!edge.far) arrow(context, view, edge, seen, colours.edge);
  if (!small) stubs(context, pane, seen, colours);
  context.beginPath();
  for (const edge of chosen) trace(context, view, edge, false);
  context.strokeStyle = colours.accent;
  context.lineWidth = Math.max(2, 1.5 / scale);
  context.stroke();
  for (const edge of chosen) arrow(context, view, edge, seen, colours.accent);
}

function arrow(context, view, edge, seen, colour) {
  const x = view.x[edge.b] + view.w[edge.b] / 2, y = view.y[edge.b];
  if (x < seen.x0 || x > seen.x1 || y < seen.y0 || y > seen.y1) return;
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 3.5, y - 7);
  context.lineTo(x + 3.5, y - 7);
  context.fill();
}

// Ends of edges that are too long to draw: a short line at both ends.
function stubs(context, pane, seen, colours) {
  const {view} = pane;
  context.beginPath();
  for (const edge of view.edges) {
    if (!edge.far) continue;
    for (const [box, y, to] of [[edge.a, view.y[edge.a] + view.h[edge.a], 12], [edge.b, view.y[edge.b], -12]]) {
      const x = view.x[box] + view.w[box] * .75;
      if (x < seen.x0 || x > seen.x1 || y < seen.y0 - 12 || y > seen.y1 + 12) continue;
      context.moveTo(x, y);
      context.lineTo(x, y + to);
    }
  }
  context.setLineDash([2, 2]);
  context.strokeStyle = colours.muted;
  context.lineWidth = 1.2;
  context.stroke();
  context.setLineDash([]);
}

function drawBox(context, pane, box, colours) {
  const {view, scale} = pane, x = view.x[box], y = view.y[box], w = view.w[box], h = view.h[box];
  const fill = pane.page.colour(pane, box), isGroup = box >= view.n;
  rounded(context, x, y, w, h, isGroup ? 3 : 7);
  context.fillStyle = fill;
  context.fill();
  context.lineWidth = isGroup ? 2 : 1;
  context.strokeStyle = isGroup ? KINDS[view.groups[box - view.n].kind] || KINDS.module : colours.line;
  context.stroke();
  if (scale < FAINT) return;
  context.fillStyle = readable(fill);
  context.font = `${isGroup ? 600 : 500} 11.5px system-ui, sans-serif`;
  const below = subtitle(view, box);
  write(context, (isGroup ? "+ " : "") + title(view, box), x + 9, y + (below ? 17 : h / 2 + 4), w - 16);
  if (!below) return;
  context.font = "10px system-ui, sans-serif";
  write(context, below, x + 9, y + 31, (w - 16) * 1.15);
}

// Far away: rectangles without text, by colour.
function drawFar(context, pane, visible, colours) {
  const {view} = pane, byColour = new Map();
  for (const box of visible) {
    if (pane.isOpen(box)) continue;
    const fill = pane.page.colour(pane, box);
    if (!byColour.has(fill)) byColour.set(fill, []);
    byColour.get(fill).push(box);
  }
  for (const [fill, boxes] of byColour) {
    context.fillStyle = mix(fill, colours.fore, .85);
    for (const box of boxes) context.fillRect(view.x[box], view.y[box], view.w[box], view.h[box]);
  }
}

function outline(context, pane, box, colours) {
  const {view, scale} = pane, edge = Math.max(3, 2 / scale);
  const colour = box === pane.selected ? colours.accent : pane.found.has(box) ? colours.found : colours.accent;
  context.strokeStyle = colour;
  context.lineWidth = box === pane.selected || pane.found.has(box) ? edge : edge / 2;
  rounded(context, view.x[box] - 2, view.y[box] - 2, view.w[box] + 4, view.h[box] + 4, 8);
  context.stroke();
}

function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16) / 255)
    .map(part => part <= .04 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + .05) / (low + .05);
}

// The colour of text on a box.
function readable(fill) {
  return contrast(fill, INK) >= contrast(fill, PAPER) ? INK : PAPER;
}

// ---- pointer and keyboard -----------------------------------------------------------------------

function listen(pane) {
  const {canvas} = pane, pointers = new Map();
  let moved = 0, apart = 0;
  canvas.addEventListener("wheel", event => {
    if (!pane.page.whole && document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    pane.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? .01 : .0015)), event.offsetX, event.offsetY);
  }, {passive: false});
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    moved = apart = 0;
  });
  canvas.addEventListener("pointermove", event => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    pointers.set(event.pointerId, event);
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    moved += Math.abs(dx) + Math.abs(dy);
    if (pointers.size === 1) { pane.left += dx; pane.top += dy; pane.paint(); return; }
    const [a, b] = [...pointers.values()], distance = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    const edge = canvas.getBoundingClientRect();
    if (apart) pane.zoom(distance / apart, (a.clientX + b.clientX) / 2 - edge.left, (a.clientY + b.clientY) / 2 - edge.top);
    apart = distance;
  });
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, event => {
      const alone = pointers.size === 1;
      pointers.delete(event.pointerId);
      if (name === "pointercancel" || moved > 6 || !alone) return;
      const box = pane.at(event.offsetX, event.offsetY);
      const head = box >= 0 && (event.offsetY - pane.top) / pane.scale - pane.view.y[box] < HEAD;
      if (pane.isOpen(box) && head) pane.flip(box);
      else if (pane.isOpen(box)) pane.page.choose(pane, -1);
      else if (box >= pane.view.n && pane.selected === box) pane.flip(box);
      else pane.page.choose(pane, box);
    });
  canvas.addEventListener("dblclick", event => {
    const box = pane.at(event.offsetX, event.offsetY);
    if (box >= pane.view.n && !pane.isOpen(box)) pane.flip(box);
  });
  canvas.addEventListener("keydown", event => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && press(pane, event.key)) event.preventDefault();
  });
}

const ARROWS = {ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]};

function press(pane, key) {
  const {view, page} = pane;
  if (key === "+" || key === "=") pane.zoom(1.3);
  else if (key === "-") pane.zoom(1 / 1.3);
  else if (key === "0") pane.fit();
  else if (key === "Escape") page.choose(pane, -1);
  else if (key === "/") page.search.focus();
  else if (key === "Enter" || key === " ") {
    if (pane.selected >= view.n) pane.flip(pane.selected);
  } else if (key === "Backspace") {
    const g = pane.selected >= 0 ? view.parent[pane.selected] : 0;
    if (g > 0) { page.choose(pane, view.n + g); pane.flip(view.n + g); }
  } else if (key in ARROWS) page.choose(pane, neighbour(pane, ...ARROWS[key]), true);
  else return false;
  return true;
}

// The next box along an edge (up, down), or in the row (left, right).
function neighbour(pane, dx, dy) {
  const {view, selected} = pane;
  const ends = view.shown.filter(box => !pane.isOpen(box));
  if (selected < 0) return ends.length ? ends[0] : -1;
  const middle = box => [view.x[box] + view.w[box] / 2, view.y[box] + view.h[box] / 2];
  const [x, y] = middle(selected);
  let near = dy ? view.edges.filter(e => (dy > 0 ? e.a : e.b) === selected).map(e => dy > 0 ? e.b : e.a) : [];
  if (!near.length && pane.isOpen(selected)) near = ends;
  if (!near.length)
    near = ends.filter(box => dx ? (middle(box)[0] - x) * dx > 1 && Math.abs(middle(box)[1] - y) < view.h[selected] + 8
                                 : (middle(box)[1] - y) * dy > 1);
  const distance = box => Math.hypot((middle(box)[0] - x) * (dy ? 2 : 1), (middle(box)[1] - y) * (dx ? 4 : 1));
  return near.reduce((best, box) => best < 0 || distance(box) < distance(best) ? box : best, -1) ?? selected;
}
