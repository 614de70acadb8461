// Level of detail: what is drawn of a view at a scale. An open group whose children would be too
// small is drawn as one rectangle, so that a frame has a bounded number of shapes.

const MOST_BOXES = 3000;  // about the number of children that are drawn when they fill the canvas
const MIN_AREA = 150;     // pixels of the canvas for each child, with the space around it
const STEPS = 2;          // levels for each doubling of the scale

// The level of a pane's scale: `groups` are drawn open, parents first; `boxes` closed; `as` has the
// box that stands for each; `edges` join them, with their `bounds`.
function levelOf(pane) {
  const {view} = pane, least = Math.max(pane.width * pane.height / MOST_BOXES, MIN_AREA);
  if (view.least !== least) { view.levels.clear(); view.least = least; }
  const step = Math.floor(Math.log2(pane.scale) * STEPS);
  if (!view.levels.has(step)) view.levels.set(step, newLevel(view, least / 4 ** (step / STEPS)));
  return view.levels.get(step);
}

function newLevel(view, least) {
  const as = new Int32Array(view.count).fill(-1), boxes = [], groups = [], queue = [0];
  let folds = false;
  for (let at = 0; at < queue.length; at++) {
    const box = view.n + queue[at];
    groups.push(box);
    as[box] = box;
    for (const child of view.groups[queue[at]].children) {
      const group = child < view.n ? null : view.groups[child - view.n];
      const fits = group && group.open && view.w[child] * view.h[child] >= least * group.children.length;
      if (fits) { queue.push(child - view.n); continue; }
      folds ||= group && group.open;
      boxes.push(child);
      cover(view, child, child, as);
    }
  }
  if (!folds && view.levels.has("whole")) return view.levels.get("whole");
  const edges = folds ? visibleEdges(view, as) : view.edges;
  const level = {boxes, groups, as, edges, bounds: boundsOf(view, edges)};
  if (!folds) view.levels.set("whole", level);
  return level;
}

function cover(view, box, by, as) {
  as[box] = by;
  if (box >= view.n) for (const child of view.groups[box - view.n].children) cover(view, child, by, as);
}

// Left, top, right and bottom of each edge.
function boundsOf(view, edges) {
  const bounds = new Float64Array(4 * edges.length);
  edges.forEach(({a, b, points, gap}, i) => {
    let x0 = Math.min(view.x[a], view.x[b]), y0 = Math.min(view.y[a], view.y[b]);
    let x1 = Math.max(view.x[a] + view.w[a], view.x[b] + view.w[b]);
    let y1 = Math.max(view.y[a] + view.h[a], view.y[b] + view.h[b]);
    for (const [x, y, high] of points) {
      x0 = Math.min(x0, x);
      x1 = Math.max(x1, x);
      y0 = Math.min(y0, y);
      y1 = Math.max(y1, y + high);
    }
    if (gap !== null) { x0 = Math.min(x0, gap); x1 = Math.max(x1, gap); y0 -= 26; y1 += 30; }
    bounds.set([x0, y0, x1 + 40, y1], 4 * i);  // 40: of an edge backwards
  });
  return bounds;
}

// The boxes, groups and edges of a level that touch a part of the view.
function seenOf(pane, level) {
  const {view, scale} = pane, x0 = -pane.left / scale, y0 = -pane.top / scale;
  const x1 = x0 + pane.width / scale, y1 = y0 + pane.height / scale, {x, y, w, h} = view;
  const isSeen = box => x[box] <= x1 && y[box] <= y1 && x[box] + w[box] >= x0 && y[box] + h[box] >= y0;
  const edges = [], {bounds} = level;
  for (let i = 0, k = 0; i < level.edges.length; i++, k += 4)
    if (bounds[k] <= x1 && bounds[k + 1] <= y1 && bounds[k + 2] >= x0 && bounds[k + 3] >= y0) edges.push(level.edges[i]);
  return {x0, y0, x1, y1, isSeen, edges, boxes: level.boxes.filter(isSeen), groups: level.groups.filter(isSeen)};
}
