// A pane: the canvas of one view, with pan, zoom, selection and colours.

const MIN_SCALE = .002, MAX_SCALE = 4;

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

  // The innermost box at a place of the canvas that is drawn; -1 without one.
  at(x, y) {
    const {view} = this, level = levelOf(this), wx = (x - this.left) / this.scale, wy = (y - this.top) / this.scale;
    const isThere = box => wx >= view.x[box] && wy >= view.y[box] && wx <= view.x[box] + view.w[box] &&
      wy <= view.y[box] + view.h[box];
    return level.boxes.find(isThere) ?? level.groups.slice(1).filter(isThere).pop() ?? -1;
  }

  // True for an open group that is drawn as one rectangle.
  isFolded(box) { return this.isOpen(box) && !levelOf(this).groups.includes(box); }

  // Zoom in on a group.
  enter(box) {
    const {view} = this;
    this.scale = Math.max(this.scale * 1.5, Math.min(.9 * this.width / view.w[box], .9 * this.height / view.h[box], 1.2));
    this.left = this.width / 2 - (view.x[box] + view.w[box] / 2) * this.scale;
    this.top = this.height / 2 - (view.y[box] + view.h[box] / 2) * this.scale;
    this.paint();
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
    requestAnimationFrame(() => { this.dirty = false; this.draw(); });
  }

  draw() { draw(this); }
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
      if (pane.isFolded(box)) { if (pane.selected === box) pane.enter(box); else pane.page.choose(pane, box); }
      else if (pane.isOpen(box) && head) pane.flip(box);
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
