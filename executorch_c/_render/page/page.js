// The page: panes side by side, search, colours, details of the selected node.

const FIRST_BOXES = 120, MAX_FOUND = 200, MAX_LISTED = 12, NARROW = 720;

function make(name, className = "", text = null) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== null) element.textContent = text;
  return element;
}

function button(text, label, run) {
  const element = make("button", "", text);
  element.type = "button";
  if (label) { element.title = label; element.setAttribute("aria-label", label); }
  element.addEventListener("click", run);
  return element;
}

class Page {
  constructor(element, data) {
    this.element = element;
    this.data = data;
    this.whole = element.classList.contains("whole");
    this.colours = data.colours;
    this.overlay = data.overlays.some(one => one.name === data.shown) ? data.shown : "";
    this.element.classList.toggle("narrow", element.clientWidth < NARROW);
    const views = data.views.map(raw => decode(raw, data.texts));
    this.panes = views.map((view, i) => { openSome(view, FIRST_BOXES); place(view); return new Pane(view, this, i); });
    this.overlays = this.named(data.overlays);
    this.partners = views.map(() => new Map());
    for (const {views: [a, b], pairs} of data.links)
      for (const [i, j] of pairsOf(pairs)) {
        this.relate(a, i, b, j);
        this.relate(b, j, a, i);
      }
    this.readTheme();
    this.build();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.readTheme(); this.repaint(); });
    new ResizeObserver(() => this.element.classList.toggle("narrow", element.clientWidth < NARROW)).observe(element);
  }

  relate(a, i, b, j) {
    const known = this.partners[a];
    if (!known.has(i)) known.set(i, []);
    known.get(i).push([b, j]);
  }

  // Overlays by name: values of each view's nodes, and sums of its groups.
  named(list) {
    const overlays = new Map();
    for (const one of list) {
      if (!overlays.has(one.name)) overlays.set(one.name, {...one, byView: new Map(), own: [], low: Infinity, high: -Infinity});
      const overlay = overlays.get(one.name), view = this.panes[one.view].view;
      const values = new Array(view.count).fill(null);
      one.at.forEach((i, k) => { values[i] = join(overlay, values[i], number(one.values[k])); });
      const own = one.at.filter(i => i >= view.n);  // boxes with a value of their own: delegates
      overlay.own.push(...own.map(box => [this.panes[one.view], box]));
      for (const value of values.slice(0, view.n))
        if (value !== null && Number.isFinite(value) && (value > 0 || !overlay.log)) {
          overlay.low = Math.min(overlay.low, value);
          overlay.high = Math.max(overlay.high, value);
        }
      for (let g = view.groups.length - 1; g >= 0; g--)
        if (overlay.total !== "none" && (values[view.n + g] === null || overlay.total !== "sum"))  // or its own
          for (const child of view.groups[g].children)
            values[view.n + g] = join(overlay, values[view.n + g], values[child]);
      overlay.byView.set(one.view, values);
    }
    return overlays;
  }

  readTheme() {
    const style = getComputedStyle(this.element), value = name => style.getPropertyValue(`--${name}`).trim();
    this.theme = Object.fromEntries(["back", "fore", "muted", "line", "edge", "accent", "found", "low", "high", "none"]
      .map(name => [name, value(name)]));
    this.cache = new Map();
  }

  repaint() { this.cache.clear(); this.panes.forEach(pane => pane.paint()); }

  // ---- colours ----

  contrastOf(fill) { return contrast(fill, readable(fill)); }

  colour(pane, box) {
    const key = box * this.panes.length + pane.index;
    if (!this.cache.has(key)) this.cache.set(key, this.newColour(pane, box));
    return this.cache.get(key);
  }

  newColour(pane, box) {
    const {theme} = this, overlay = this.overlays.get(this.overlay);
    if (!overlay) {
      if (box >= pane.view.n) return mix(KINDS[pane.view.groups[box - pane.view.n].kind] || KINDS.module, theme.back, .2);
      return mix(this.colours[pane.view.kinds[box]] || this.colours.other || "#d0d0d0", theme.back, .55);
    }
    const value = this.value(overlay, pane, box);
    if (value === null) return theme.none;
    if (overlay.categories.length) return mix(overlay.categories[value][1], theme.back, .6);
    return mix(theme.high, theme.low, share(overlay, value, box < pane.view.n ? overlay.high : this.highOf(overlay)));
  }

  // The value of a box as text: empty for a category, null without one.
  textOf(pane, box) {
    const overlay = this.overlays.get(this.overlay), value = overlay ? this.value(overlay, pane, box) : null;
    return value === null ? null : overlay.categories.length ? "" : text(overlay, value);
  }

  // The end of the scale of boxes: their sums are larger than the values of nodes.
  highOf(overlay) {
    if (overlay.total !== "sum") return overlay.high;
    if (overlay.boxes === undefined) {
      overlay.boxes = overlay.high;
      for (const pane of this.panes)
        for (const box of pane.level ? pane.level.boxes : []) {
          const value = this.value(overlay, pane, box);
          if (Number.isFinite(value)) overlay.boxes = Math.max(overlay.boxes, value);
        }
    }
    return overlay.boxes;
  }

  // Other boxes are drawn: the scale of their sums is another.
  scaleBoxes() {
    for (const overlay of this.overlays.values()) overlay.boxes = undefined;
    this.cache.clear();
    this.showLegend();
  }

  value(overlay, pane, box) {
    const values = overlay.byView.get(pane.index);
    return values ? values[box] : null;
  }

  // ---- elements ----

  build() {
    const bar = make("div", "graph-bar"), rest = make("div", "graph-rest");
    this.area = make("div", "graph-panes");
    this.panel = make("aside", "graph-panel");
    this.panel.setAttribute("aria-live", "polite");
    this.panel.setAttribute("aria-label", "details");
    this.search = make("input");
    this.search.type = "search";
    this.search.placeholder = "search nodes ( / )";
    this.search.setAttribute("aria-label", "search nodes by operator, layer, shape or place");
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", event => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { this.search.value = ""; this.find(""); this.shownPanes()[0].canvas.focus(); }
    });
    this.count = make("span", "graph-count");
    bar.append(this.search, this.count, this.chooser());
    bar.append(
      button("open all", "open all boxes", () => this.shownPanes().forEach(pane => pane.openAll(true))),
      button("fold all", "close all boxes", () => this.shownPanes().forEach(pane => pane.openAll(false))),
      button("fit", "fit the graph into the window (0)", () => this.shownPanes().forEach(pane => pane.fit())),
      button("\u2212", "zoom out (-)", () => this.shownPanes().forEach(pane => pane.zoom(1 / 1.4))),
      button("+", "zoom in (+)", () => this.shownPanes().forEach(pane => pane.zoom(1.4))));
    if (this.panes.length > 1) bar.append(this.tabs());
    this.legend = make("div", "graph-legend");
    rest.append(this.area, this.panel);
    this.element.append(bar, this.legend, rest);
    this.area.append(...this.panes.map(pane => pane.element));
    const last = this.panes.length - 1;
    this.showPanes(this.element.clientWidth < NARROW ? [last] : [0, last]);
    this.describe(null, -1);
    this.showLegend();
  }

  chooser() {
    const select = make("select");
    select.setAttribute("aria-label", "colours of nodes");
    for (const name of ["", ...this.overlays.keys()]) {
      const option = make("option", "", name ? `colour: ${name}` : "colour: operator");
      option.value = name;
      select.append(option);
    }
    select.value = this.overlay;
    select.addEventListener("change", () => this.colourBy(select.value));
    this.select = select;
    return select;
  }

  colourBy(name) {
    this.overlay = this.select.value = name;
    this.showLegend();
    this.repaint();
    if (!this.selectedPane) this.describe(null, -1);
  }

  tabs() {
    const box = make("span", "graph-tabs");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "views");
    this.tabButtons = this.panes.map((pane, i) => button(pane.view.name, "", () => {
      const shown = this.shownPanes().map(one => one.index), narrow = this.element.clientWidth < NARROW;
      if (narrow) this.showPanes([i]);
      else if (!shown.includes(i)) this.showPanes([...shown, i]);
      else if (shown.length > 1) this.showPanes(shown.filter(one => one !== i));
    }));
    box.append(...this.tabButtons);
    return box;
  }

  shownPanes() { return this.panes.filter(pane => !pane.element.hidden); }

  showPanes(indices) {
    for (const pane of this.panes) {
      pane.element.hidden = !indices.includes(pane.index);
      if (this.tabButtons) this.tabButtons[pane.index].setAttribute("aria-pressed", String(!pane.element.hidden));
    }
    if (this.selectedPane) this.follow(this.selectedPane, this.selectedBox);
  }

  showLegend() {
    const overlay = this.overlays.get(this.overlay), {legend} = this;
    legend.replaceChildren();
    legend.hidden = !overlay;
    if (!overlay) return;
    if (overlay.categories.length)
      for (const [name, colour] of overlay.categories) {
        const swatch = make("i");
        swatch.style.background = mix(colour, this.theme.back, .6);
        legend.append(swatch, make("span", "", name));
      }
    else {
      legend.append(make("span", "", text(overlay, overlay.low)), make("i", "ramp"), make("span", "", text(overlay, overlay.high)));
      const boxes = this.highOf(overlay);
      if (boxes > overlay.high) legend.append(make("span", "", `boxes up to ${text(overlay, boxes)}`));
    }
  }

  // ---- search ----

  find(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    this.hits = [];
    for (const pane of this.panes) {
      pane.found = new Set();
      if (wanted.length)
        for (let box = 0; box < pane.view.count; box++) {
          const inside = haystack(pane.view, box);
          if (!wanted.every(word => inside.includes(word))) continue;
          this.hits.push([pane, box]);
          if (pane.found.size < MAX_FOUND) pane.found.add(box);
        }
      pane.paint();
    }
    this.hit = -1;
    this.count.textContent = wanted.length ? `${this.hits.length.toLocaleString("en")} found` : "";
  }

  next(step) {
    if (!this.hits || !this.hits.length) return;
    this.hit = (this.hit + step + this.hits.length) % this.hits.length;
    this.count.textContent = `${this.hit + 1} of ${this.hits.length.toLocaleString("en")}`;
    const [pane, box] = this.hits[this.hit];
    if (pane.element.hidden) this.showPanes([pane.index]);
    this.choose(pane, box, true);
  }

  // ---- selection ----

  choose(pane, box, center = false) {
    pane.select(box, center);
    this.selectedPane = box < 0 ? null : pane;
    this.selectedBox = box;
    for (const other of this.panes) if (other !== pane) other.select(-1);
    if (box >= 0) this.follow(pane, box);
    this.describe(pane, box);
  }

  // Select what corresponds in the other panes.
  follow(pane, box) {
    for (const [index, node] of this.corresponding(pane, box).reverse())
      this.panes[index].select(node, true);
  }

  corresponding(pane, box) {
    if (box < pane.view.n) return [...(this.partners[pane.index].get(box) || [])];
    const first = leaves(pane.view, box).find(node => this.partners[pane.index].has(node));
    return first === undefined ? [] : [...this.partners[pane.index].get(first)];
  }

  describe(pane, box) {
    const {panel} = this;
    panel.replaceChildren();
    panel.classList.toggle("empty", box < 0);
    if (box < 0) { this.overview(); return; }
    const {view} = pane;
    panel.append(button("\u00d7", "close", () => this.choose(pane, -1)), make("h3", "", title(view, box)));
    const rows = make("dl");
    const row = (name, value) => rows.append(make("dt", "", name), make("dd", "", value));
    if (box >= view.n) row("nodes", view.size[box].toLocaleString("en"));
    else {
      row("id", view.ids[box]);
      if (view.places[box] && view.places[box] !== view.ids[box]) row("place", view.places[box]);
    }
    const around = [];
    for (let g = view.parent[box]; g > 0; g = view.parent[view.n + g]) around.unshift(title(view, view.n + g));
    if (around.length) row("in", around.join(" / "));
    for (const overlay of this.overlays.values()) {
      const value = this.value(overlay, pane, box);
      if (value !== null) row(overlay.name, text(overlay, value));
    }
    if (box < view.n) {
      view.outputs[box].forEach((one, i) => row(view.outputs[box].length > 1 ? `output ${i}` : "output", one));
      view.attributes[box].forEach(([name, value]) => row(name, value));
    }
    panel.append(rows);
    if (box < view.n) {
      this.listOf("reads", view.inputs[box].map(([source, name]) => [pane, source, name]));
      this.listOf("read by", view.readers[box].map(reader => [pane, reader, ""]));
    } else panel.append(button(pane.isOpen(box) ? "close the box" : "open the box", "", () => { pane.flip(box); this.describe(pane, box); }));
    this.listOf("corresponds to", this.corresponding(pane, box).map(([i, node]) => [this.panes[i], node, this.panes[i].view.name]));
  }

  listOf(name, entries) {
    if (!entries.length) return;
    const list = make("ul");
    for (const [pane, node, note] of entries.slice(0, 3 * MAX_LISTED)) {
      const item = make("li");
      if (note) item.append(make("span", "graph-name", note));
      item.append(button(`${title(pane.view, node)} ${pane.view.ids[node] ?? ""}`, "", () => {
        if (pane.element.hidden) this.showPanes([pane.index]);
        this.choose(pane, node, true);
      }));
      list.append(item);
    }
    this.panel.append(make("h4", "", `${name} (${entries.length})`), list);
  }

  overview() {
    const overlay = this.overlays.get(this.overlay), {panel} = this;
    const counts = this.panes.map(({view}) => `${view.name}: ${view.n.toLocaleString("en")} nodes`);
    panel.append(make("p", "", counts.join("; ")));
    if (this.data.omitted) panel.append(make("p", "", `${this.data.omitted.toLocaleString("en")} attributes left out: the page would be too large`));
    if (overlay) {
      const nodes = this.panes.flatMap(pane => Array.from({length: pane.view.n}, (_, node) => [pane, node]));
      const all = [...nodes, ...overlay.own].map(([pane, box]) => [pane, box, this.value(overlay, pane, box)]);
      const top = all.filter(entry => entry[2] !== null && (!overlay.categories.length || entry[2] > 0))
        .sort((a, b) => order(b[2]) - order(a[2])).slice(0, MAX_LISTED);
      this.listOf(overlay.categories.length ? overlay.name : `largest ${overlay.name}`, top.map(([pane, node, value]) => [pane, node, text(overlay, value)]));
    }
    panel.append(make("p", "graph-help", "Click a box to see its details, again to open it. Keys: arrows walk, " +
      "Enter opens and closes, Backspace closes the box around, + \u2212 0 zoom, / searches, Escape clears."));
  }
}

// ---- values -------------------------------------------------------------------------------------

function number(value) { return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value === "NaN" ? NaN : value; }

function order(value) { return Number.isNaN(value) ? Infinity : value; }

function join(overlay, a, b) {
  if (a === null || b === null) return a === null ? b : a;
  if (Number.isNaN(a) || Number.isNaN(b)) return NaN;
  if (overlay.categories.length) return Math.max(a, b);
  return overlay.total === "sum" ? a + b : overlay.total === "min" ? Math.min(a, b) : Math.max(a, b);
}

function share(overlay, value, high) {
  if (!Number.isFinite(value)) return Number.isNaN(value) || value > 0 ? 1 : 0;
  const scale = overlay.log ? x => Math.log(x) : x => x, {low} = overlay;
  if (overlay.log && value <= 0) return 0;
  return high > low ? Math.min(Math.max((scale(value) - scale(low)) / (scale(high) - scale(low)), 0), 1) : 1;
}

function text(overlay, value) {
  if (overlay.categories.length) return overlay.categories[value][0];
  const shown = !Number.isFinite(value) ? String(value).replace("Infinity", "inf")
    : value && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e9) ? value.toExponential(2)
    : value.toLocaleString("en", {maximumSignificantDigits: 4});
  return overlay.unit ? `${shown} ${overlay.unit}` : shown;
}

function leaves(view, box) {
  return box < view.n ? [box] : view.groups[box - view.n].children.flatMap(child => leaves(view, child));
}

function haystack(view, box) {
  view.haystacks ||= new Array(view.count);
  view.haystacks[box] ??= (box < view.n
    ? [title(view, box), view.ids[box], view.places[box], ...view.outputs[box], ...view.attributes[box].flat()]
    : [title(view, box), view.groups[box - view.n].kind]).join(" ").toLowerCase();
  return view.haystacks[box];
}

for (const element of document.querySelectorAll("section.graph"))
  element.graphPage = new Page(element, JSON.parse(element.querySelector(".graph-data").textContent));
