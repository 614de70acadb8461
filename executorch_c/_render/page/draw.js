// Drawing of a pane: what `detail.js` chooses, as shapes, edges and text.

const KINDS = {delegate: "#c98a00", module: "#6b7f95", quantized: "#d9715f", run: "#8a94a0"};
const INK = "#0c0f12", PAPER = "#ffffff";
const FAINT = .3, FAR = .15;  // scales below which nodes have no text, and edges no arrows

function mix(a, b, share) {
  const part = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
  return "#" + [0, 1, 2].map(i => Math.round(part(a, i) * share + part(b, i) * (1 - share))
    .toString(16).padStart(2, "0")).join("");
}

function draw(pane) {
  const {view, canvas, scale} = pane, ratio = canvas.width / pane.width;
  const colours = pane.page.theme, context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, pane.width, pane.height);
  context.setTransform(ratio * scale, 0, 0, ratio * scale, pane.left * ratio, pane.top * ratio);
  const level = levelOf(pane), seen = seenOf(pane, level);
  if (level !== pane.level) { pane.level = level; pane.page.scaleBoxes(); }
  for (const box of seen.groups) if (box > view.n) drawGroup(context, pane, box, colours);
  drawEdges(context, pane, seen, colours);
  for (const box of seen.groups) if (box > view.n) drawHead(context, pane, box, colours);
  if (scale < FAINT) drawFar(context, pane, seen.boxes, colours);
  else for (const box of seen.boxes) drawBox(context, pane, box, colours);
  const marked = [...pane.found, ...pane.near].map(one => level.as[pane.standIn(one)]);
  if (pane.selected >= 0) marked.push(level.as[pane.selected]);
  for (const box of new Set(marked)) if (seen.isSeen(box)) outline(context, pane, box, colours);
  pane.drawn = seen.groups.length + seen.boxes.length + seen.edges.length;
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
  context.setLineDash(scale > FAR && (kind === "quantized" || kind === "run") ? [5, 4] : []);
  context.strokeStyle = mix(colour, colours.back, .75);
  context.stroke();
  context.setLineDash([]);
}

// The head of an open box: its name, and its value in its colour.
function drawHead(context, pane, box, colours) {
  const {view, scale} = pane, x = view.x[box], y = view.y[box];
  const value = pane.page.textOf(pane, box), fill = value === null ? null : pane.page.colour(pane, box);
  if (fill) {
    rounded(context, x + 2, y + 2, view.w[box] - 4, HEAD - 4, 6);
    context.fillStyle = fill;
    context.fill();
  }
  if (scale < FAINT) return;
  context.font = "600 11px system-ui, sans-serif";
  context.fillStyle = fill ? readable(fill) : colours.muted;
  const left = Math.max(x, (-pane.left) / scale), right = Math.min(x + view.w[box], (pane.width - pane.left) / scale);
  const name = `\u2212 ${title(view, box)}${value ? `: ${value}` : ""}`;
  write(context, name, left + 9, y + 16, right - left - 18);
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
  const {view, scale, selected} = pane, small = scale < FAR;
  const chosen = seen.edges.filter(({a, b}) => a === selected || b === selected);
  const near = seen.edges.filter(({a, b, far}) => !far && a !== selected && b !== selected);
  context.beginPath();
  for (const edge of near) trace(context, view, edge, small);
  context.strokeStyle = colours.edge;
  context.lineWidth = small ? Math.max(1, .35 / scale) : 1.2;
  context.stroke();
  if (!small) {
    arrows(context, view, near, seen, colours.edge);
    stubs(context, pane, seen, colours);
  }
  context.beginPath();
  for (const edge of chosen) trace(context, view, edge, false);
  context.strokeStyle = colours.accent;
  context.lineWidth = Math.max(2, 1.5 / scale);
  context.stroke();
  arrows(context, view, chosen, seen, colours.accent);
}

function arrows(context, view, edges, seen, colour) {
  context.fillStyle = colour;
  context.beginPath();
  for (const {b} of edges) {
    const x = view.x[b] + view.w[b] / 2, y = view.y[b];
    if (x < seen.x0 || x > seen.x1 || y < seen.y0 || y > seen.y1) continue;
    context.moveTo(x, y);
    context.lineTo(x - 3.5, y - 7);
    context.lineTo(x + 3.5, y - 7);
  }
  context.fill();
}

// Ends of edges that are too long to draw: a short line at both ends.
function stubs(context, pane, seen, colours) {
  const {view} = pane;
  context.beginPath();
  for (const edge of seen.edges) {
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
  const below = subtitle(view, box) && (pane.page.textOf(pane, box) || subtitle(view, box));
  write(context, (isGroup ? "+ " : "") + title(view, box), x + 9, y + (below ? 17 : h / 2 + 4), w - 16);
  if (!below) return;
  context.font = "10px system-ui, sans-serif";
  write(context, below, x + 9, y + 31, (w - 16) * 1.15);
}

// Far away: rectangles by colour; names, of the size of the page's text, of those that have room.
function drawFar(context, pane, boxes, colours) {
  const {view, scale} = pane, byColour = new Map();
  const colourOf = box => box < view.n ? mix(pane.page.colour(pane, box), colours.fore, .85) : pane.page.colour(pane, box);
  for (const box of boxes) {
    const fill = colourOf(box);
    if (!byColour.has(fill)) byColour.set(fill, []);
    byColour.get(fill).push(box);
  }
  for (const [fill, some] of byColour) {
    context.fillStyle = fill;
    for (const box of some) context.fillRect(view.x[box], view.y[box], view.w[box], view.h[box]);
  }
  context.font = `600 ${11 / scale}px system-ui, sans-serif`;
  context.lineWidth = 1.5 / scale;
  for (const box of boxes) {
    if (box < view.n) continue;
    context.strokeStyle = KINDS[view.groups[box - view.n].kind] || KINDS.module;
    context.strokeRect(view.x[box], view.y[box], view.w[box], view.h[box]);
    const room = view.w[box] * scale - 8;
    if (room < 40 || view.h[box] * scale < 16) continue;
    context.fillStyle = readable(colourOf(box));
    const name = pathOf(view, box), fitting = Math.floor(room / 6.5), isLong = name.length > fitting;
    const last = isLong && view.groups[box - view.n].kind === "module";  // the end of a path tells more
    write(context, last ? `\u2026${name.slice(1 - fitting)}` : name, view.x[box] + 4 / scale, view.y[box] + 12 / scale, room);
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

const inks = new Map();

// The colour of text on a box.
function readable(fill) {
  if (!inks.has(fill)) inks.set(fill, contrast(fill, INK) >= contrast(fill, PAPER) ? INK : PAPER);
  return inks.get(fill);
}
