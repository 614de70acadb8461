// Boxes of a view: decoded, measured, placed. A box is a node (0 .. n-1) or a group (n ..).

const GAP = 16, ROW_GAP = 30, PAD = 12, HEAD = 24, NODE_HEIGHT = 40, LOW_HEIGHT = 26;
const MAX_COLUMN = 3500, COLUMN_GAP = 60;
const CHARACTER = 6.6, MIN_WIDTH = 70, MAX_WIDTH = 230, SWEEPS = 4;

function decode(raw, texts) {
  const n = raw.ids.length, groups = raw.boxes.map(([kind, name, children, rows, chains]) => (
    {kind: texts[kind], name: texts[name], children, rows, chains, open: false, stale: true}));
  const count = n + groups.length, parent = new Int32Array(count).fill(-1);
  groups.forEach((group, g) => { for (const child of group.children) parent[child] = g; });
  const view = {name: raw.name, note: raw.note, ids: raw.ids, n, groups, count, parent,
    labels: raw.labels.map(i => texts[i]), kinds: raw.kinds.map(i => texts[i]),
    places: raw.places.map(i => texts[i]),
    outputs: raw.outputs.map(list => list.map(i => texts[i])),
    attributes: raw.attributes.map(list => pairsOf(list).map(([k, v]) => [texts[k], texts[v]])),
    inputs: raw.inputs.map(list => pairsOf(list).map(([source, name]) => [source, texts[name]])),
    readers: raw.ids.map(() => []), levels: new Map(), size: new Int32Array(count), slot: new Int32Array(count), overlays: [],
    x: new Float64Array(count), y: new Float64Array(count),
    w: new Float64Array(count), h: new Float64Array(count)};
  view.inputs.forEach((list, i) => list.forEach(([source]) => {
    if (!view.readers[source].includes(i)) view.readers[source].push(i);
  }));
  for (let g = groups.length - 1; g >= 0; g--)
    for (const child of groups[g].children)
      view.size[n + g] += child < n ? 1 : view.size[child];
  for (let i = 0; i < count; i++) measure(view, i);
  for (const group of groups) group.children.forEach((child, slot) => { view.slot[child] = slot; });
  view.chainOf = chainsOf(view);
  groups[0].open = true;
  return view;
}

function pairsOf(list) {
  const pairs = [];
  for (let i = 0; i < list.length; i += 2) pairs.push([list[i], list[i + 1]]);
  return pairs;
}

function title(view, box) {
  if (box < view.n) return view.labels[box];
  const group = view.groups[box - view.n];
  return group.name || view.name;
}

// The path of a layer, "body.0.conv"; the name of another box.
function pathOf(view, box) {
  const isLayer = one => one > view.n && view.groups[one - view.n].kind === "module";
  const names = [];
  for (let at = box; isLayer(at); at = view.n + view.parent[at]) names.unshift(title(view, at));
  return names.join(".") || title(view, box);
}

function subtitle(view, box) {
  if (box >= view.n) return `${view.size[box].toLocaleString("en")} nodes`;
  return view.outputs[box].length ? view.outputs[box].join("; ") : "";
}

function measure(view, box) {
  const longest = Math.max(title(view, box).length + (box < view.n ? 0 : 3),
                           subtitle(view, box).length * .86);
  view.w[box] = Math.min(Math.max(longest * CHARACTER + 18, MIN_WIDTH), MAX_WIDTH);
  view.h[box] = subtitle(view, box) ? NODE_HEIGHT : LOW_HEIGHT;
}

// The chain of each edge: edges of nodes by number, [source, reader, group, chain or -1].
function chainsOf(view) {
  const depth = new Int32Array(view.groups.length), edges = [];
  view.groups.forEach((group, g) => {
    depth[g] = g ? depth[view.parent[view.n + g]] + 1 : 0;
    group.byEnds = new Map();
    group.row = new Int32Array(group.rows.reduce((sum, row) => sum + row.length, 0));
    group.rows.forEach((row, r) => { for (const slot of row) group.row[slot] = r; });
    group.chains.forEach((chain, c) => {
      const a = group.children[chain[0]], b = group.children[chain[chain.length - 1]];
      group.byEnds.set(a * view.count + b, c);
    });
  });
  view.inputs.forEach((list, reader) => {
    for (const source of new Set(list.map(pair => pair[0]))) {
      let a = source, b = reader;
      while (view.parent[a] !== view.parent[b]) {
        if (depth[view.parent[a]] >= depth[view.parent[b]]) a = view.n + view.parent[a];
        else b = view.n + view.parent[b];
      }
      const group = view.groups[view.parent[a]];
      const chain = group.byEnds.get(a * view.count + b);
      edges.push([source, reader, view.parent[a], chain === undefined ? -1 : chain]);
    }
  });
  return edges;
}

// ---- places inside a group ------------------------------------------------------------------

// Weighted isotonic regression: the places nearest to `wanted` that keep the order and the gaps.
function spread(wanted, offset) {
  const blocks = [];
  for (let i = 0; i < wanted.length; i++) {
    let block = {sum: wanted[i] - offset[i], count: 1};
    while (blocks.length) {
      const last = blocks[blocks.length - 1];
      if (last.sum / last.count <= block.sum / block.count) break;
      blocks.pop();
      block = {sum: last.sum + block.sum, count: last.count + block.count};
    }
    blocks.push(block);
  }
  const result = [];
  for (const block of blocks)
    for (let i = 0; i < block.count; i++) result.push(block.sum / block.count + offset[result.length]);
  return result;
}

function arrange(view, g) {
  const group = view.groups[g], children = group.children, rows = group.rows;
  for (const child of children)
    if (child >= view.n && view.groups[child - view.n].open) arrange(view, child - view.n);
    else if (child >= view.n) measure(view, child);
  if (!group.stale) return;
  const slots = rows.reduce((sum, row) => sum + row.length, 0);
  const width = slot => slot < children.length ? view.w[children[slot]] : 2;
  const up = Array.from({length: slots}, () => []), down = Array.from({length: slots}, () => []);
  for (const chain of group.chains)
    for (let i = 1; i < chain.length; i++) { down[chain[i - 1]].push(chain[i]); up[chain[i]].push(chain[i - 1]); }
  const x = new Float64Array(slots), offsets = rows.map(row => {
    let at = 0;
    return row.map((slot, i) => {
      if (i) at += (width(row[i - 1]) + width(slot)) / 2 + GAP;
      return at;
    });
  });
  rows.forEach((row, r) => row.forEach((slot, i) => {
    x[slot] = offsets[r][i] - offsets[r][row.length - 1] / 2;
  }));
  for (let sweep = 0; sweep < SWEEPS; sweep++)
    for (let k = 0; k < rows.length; k++) {
      const r = sweep % 2 ? rows.length - 1 - k : k, near = sweep % 2 ? down : up;
      const wanted = rows[r].map(slot => {
        const list = near[slot];
        return list.length ? list.reduce((sum, one) => sum + x[one], 0) / list.length : x[slot];
      });
      spread(wanted, offsets[r]).forEach((value, i) => { x[rows[r][i]] = value; });
    }
  finish(view, g, x, width);
}

function finish(view, g, x, width) {
  const group = view.groups[g], children = group.children;
  const heights = group.rows.map(row => row.reduce((most, slot) =>
    slot < children.length ? Math.max(most, view.h[children[slot]]) : most, 0));
  const columns = columnsOf(group.rows, heights, x, width);
  const name = g ? title(view, view.n + g).length * CHARACTER + 60 : 0, start = g ? HEAD + PAD : PAD;
  const wide = columns.reduce((sum, column) => sum + column.right - column.left + COLUMN_GAP, -COLUMN_GAP);
  const inner = Math.max(wide, Math.min(name, 420));
  let from = PAD + (inner - wide) / 2, bottom = start;
  group.columns = columns;
  group.at = new Array(x.length);
  group.column = new Int32Array(x.length);
  columns.forEach((column, c) => {
    let top = start;
    for (let r = column.first; r < column.last; r++) {
      for (const slot of group.rows[r]) {
        const own = slot < children.length ? view.h[children[slot]] : heights[r];
        group.at[slot] = [x[slot] - column.left + from, top + (heights[r] - own) / 2, own];
        group.column[slot] = c;
      }
      top += heights[r] + ROW_GAP;
    }
    bottom = Math.max(bottom, top);
    column.at = from - COLUMN_GAP / 2;
    from += column.right - column.left + COLUMN_GAP;
  });
  view.w[view.n + g] = inner + 2 * PAD;
  view.h[view.n + g] = bottom - ROW_GAP + PAD;
  group.stale = false;
}

// Columns of rows: one, or several for a group that is much higher than wide.
function columnsOf(rows, heights, x, width) {
  const total = heights.reduce((sum, height) => sum + height + ROW_GAP, 0);
  const side = slot => [x[slot] - width(slot) / 2, x[slot] + width(slot) / 2];
  const wide = Math.max(1, ...rows.map(row => row.length ? side(row[row.length - 1])[1] - side(row[0])[0] : 0));
  const count = total > MAX_COLUMN && total > 3 * wide ? Math.ceil(Math.sqrt(total / (wide + COLUMN_GAP) / 1.2)) : 1;
  const columns = [];
  let column = null, top = 0;
  rows.forEach((row, r) => {
    if (!column || (top + heights[r] / 2 > total / count && columns.length < count)) {
      columns.push(column = {first: r, left: Infinity, right: -Infinity});
      top = 0;
    }
    column.last = r + 1;
    top += heights[r] + ROW_GAP;
    for (const [left, right] of row.map(side)) {
      column.left = Math.min(column.left, left);
      column.right = Math.max(column.right, right);
    }
  });
  return columns.length ? columns : [{first: 0, last: 0, left: 0, right: 0}];
}

// ---- a whole view ---------------------------------------------------------------------------

// Place every visible box: `shown` lists them, groups before what they hold; `edges` join them.
function place(view) {
  arrange(view, 0);
  const shown = [], rep = new Int32Array(view.n), root = view.n;
  view.x[root] = view.y[root] = 0;
  const queue = [0];
  for (let at = 0; at < queue.length; at++) {
    const g = queue[at], group = view.groups[g], box = view.n + g;
    if (g) shown.push(box);
    group.children.forEach((child, slot) => {
      const [x, y] = group.at[slot];
      view.x[child] = view.x[box] + x - view.w[child] / 2;
      view.y[child] = view.y[box] + y;
      if (child >= view.n && view.groups[child - view.n].open) queue.push(child - view.n);
      else { shown.push(child); stand(view, child, child, rep); }
    });
  }
  view.shown = shown;
  view.rep = rep;
  view.levels.clear();
  view.edges = visibleEdges(view, rep);
}

function stand(view, box, as, rep) {
  if (box < view.n) { rep[box] = as; return; }
  for (const child of view.groups[box - view.n].children) stand(view, child, as, rep);
}

function visibleEdges(view, rep) {
  const known = new Set(), edges = [];
  for (const [source, reader, g, c] of view.chainOf) {
    const a = rep[source], b = rep[reader], key = a * view.count + b;
    if (a === b || known.has(key)) continue;
    known.add(key);
    const group = view.groups[g], chain = c < 0 ? [] : group.chains[c];
    const points = [], box = view.n + g, [first, last] = [chain[0], chain[chain.length - 1]];
    const whole = c >= 0 && group.column[first] === group.column[last];
    for (let i = 1; whole && i < chain.length - 1; i++) {
      const [x, y, high] = group.at[chain[i]];
      points.push([view.x[box] + x, view.y[box] + y, high]);
    }
    const far = c < 0 || (!points.length && group.row[last] - group.row[first] > 1);
    const gap = far || whole ? null : view.x[box] + group.columns[group.column[last]].at;
    if (!far && gap === null) points.splice(0, points.length, ...rails(view, a, g, false), ...points,
      ...rails(view, b, g, true).reverse());
    edges.push({a, b, points, far, gap});  // gap: where an edge to another column goes up
  }
  return edges;
}

// The ways of an edge along the sides of the groups around its end, past the rows between.
function rails(view, end, outer, enters) {
  const points = [];
  for (let box = end; view.parent[box] !== outer; box = view.n + view.parent[box]) {
    const group = view.groups[view.parent[box]], around = view.n + view.parent[box];
    const row = group.row[view.slot[box]], top = view.y[around], bottom = top + view.h[around];
    if (group.columns.length > 1 || row === (enters ? 0 : group.rows.length - 1)) continue;
    if (enters) points.push([view.x[around] + 6, top, view.y[box] - 14 - top]);
    else {
      const from = view.y[box] + view.h[box] + 14;
      points.push([view.x[around] + view.w[around] - 6, from, Math.max(bottom - from, 0)]);
    }
  }
  return points;
}

function toggle(view, g, open) {
  view.groups[g].open = open;
  for (let at = g; at >= 0; at = view.parent[view.n + at]) view.groups[at].stale = true;
}

// Open groups from the outside on, while at most `most` boxes are visible.
function openSome(view, most) {
  let count = view.groups[0].children.length, queue = [0];
  for (let at = 0; at < queue.length; at++)
    for (const child of view.groups[queue[at]].children) {
      const g = child - view.n;
      if (g < 0 || count + view.groups[g].children.length - 1 > most) continue;
      count += view.groups[g].children.length - 1;
      toggle(view, g, true);
      queue.push(g);
    }
}
