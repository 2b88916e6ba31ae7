// Runs the graphs that graph.py exports. A tensor is a view of a typed array: shape, steps (strides) and start
// (offset).
const KINDS = { f: Float32Array, i: Int32Array, b: Uint8Array, q: Int8Array };
const size = shape => shape.reduce((a, b) => a * b, 1);
const rowMajor = shape => shape.map((_, axis) => size(shape.slice(axis + 1)));
const tensor = (data, shape, steps = rowMajor(shape), start = 0) => ({ data, shape, steps, start });
const axisOf = (axis, x) => axis < 0 ? axis + x.shape.length : axis;

// Visits the elements of a view in order.
function walk(shape, steps, start, visit) {
  const last = shape.length - 1, width = shape[last] ?? 1, step = steps[last] ?? 0, at = new Array(shape.length).fill(0);
  for (let i = 0, n = size(shape), from = start; i < n;) {
    for (let j = 0; j < width; j++) visit(i++, from + j * step);
    for (let axis = last - 1; axis >= 0; axis--) {
      from += steps[axis];
      if (++at[axis] < shape[axis]) break;
      from -= steps[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

// The same tensor seen with another shape: axes of size one are repeated, new ones come first.
function spread(x, shape) {
  const more = shape.length - x.shape.length;
  return tensor(x.data, shape, shape.map((n, axis) => axis < more || x.shape[axis - more] !== n ? 0
    : x.steps[axis - more]), x.start);
}

// The numbers in order, copied only where the view is not contiguous.
function flat(x, shape = x.shape) {
  const { data, steps, start } = spread(x, shape), dense = rowMajor(shape), n = size(shape);
  if (shape.every((length, axis) => length === 1 || steps[axis] === dense[axis])) return data.subarray(start,
    start + n);
  const out = new data.constructor(n);
  walk(shape, steps, start, (i, from) => { out[i] = data[from]; });
  return out;
}

const permute = (x, order) => tensor(x.data, order.map(axis => x.shape[axis]), order.map(axis => x.steps[axis]),
  x.start);

// Function `f` of each element; arguments that are not tensors are the same for all.
function map(f, args, kind, shape) {
  const out = new KINDS[kind](size(shape)), [a, b, c] = args.map(arg => arg?.data && flat(arg, shape)),
    [x, y, z] = args;
  for (let i = 0; i < out.length; i++) out[i] = f(a ? a[i] : x, b ? b[i] : y, c ? c[i] : z, kind);
  return tensor(out, shape);
}

// Function `f` of the numbers along some axes (all if none is named).
function reduce(f, x, axes, kind, shape) {
  const all = x.shape.map((_, axis) => axis), over = [axes ?? all].flat().map(axis => axisOf(axis, x));
  const inner = over.length ? over : all, data = flat(permute(x,
    [...all.filter(axis => !inner.includes(axis)), ...inner]));
  const n = size(inner.map(axis => x.shape[axis])), out = new KINDS[kind](size(shape));
  for (let i = 0; i < out.length; i++) out[i] = f(data.subarray(i * n, i * n + n));
  return tensor(out, shape);
}

// `f(row, out)` fills a row for each row along one axis.
function along(f, x, axis, kind) {
  if (!x.shape.length) return along(f, tensor(x.data, [1], [1], x.start), 0, kind);
  const last = x.shape.length - 1, order = x.shape.map((_, i) => i).filter(i =>
    i !== axisOf(axis, x)).concat(axisOf(axis, x));
  const moved = permute(x, order), data = flat(moved), n = moved.shape[last], out = new KINDS[kind](data.length);
  for (let i = 0; n && i < data.length; i += n) f(data.subarray(i, i + n), out.subarray(i, i + n));
  return permute(tensor(out, moved.shape), order.map((_, i) => order.indexOf(i)));
}

// (batch, n, k) times (batch, k, m): two rows of the first by four of the second at a time, so that what has been read
// is used more than once.
function matmul(a, b, shape) {
  const [n, m] = shape.slice(-2), k = a.shape.at(-1), [x, y] = [flat(a), flat(b)], out = new Float32Array(size(shape));
  const one = (factor, from, to) => { for (let j = 0; j < m; j++) out[to + j] += factor * y[from + j]; };
  for (let g = 0; g < out.length / (n * m || 1); g++) for (let i = 0; i < n; i += 2) {
    const rows = Math.min(n - i, 2), at = (g * n + i) * k, to = (g * n + i) * m;
    let l = 0, from = g * k * m;
    if (rows === 2) for (; l + 3 < k; l += 4, from += 4 * m) {
      const [p, q, r, s] = [x[at + l], x[at + l + 1], x[at + l + 2], x[at + l + 3]], z = at + k + l,
        [t, u, v, w] = [x[z], x[z + 1], x[z + 2], x[z + 3]];
      for (let j = 0; j < m; j++) {
        const c = y[from + j], d = y[from + m + j], e = y[from + 2 * m + j], f = y[from + 3 * m + j];
        out[to + j] += p * c + q * d + r * e + s * f;
        out[to + m + j] += t * c + u * d + v * e + w * f;
      }
    }
    for (; l < k; l++, from += m) for (let row = 0; row < rows; row++) one(x[at + row * k + l], from, to + row * m);
  }
  return tensor(out, shape);
}

const sum = row => { let total = 0; for (const v of row) total += v; return total; };
const best = row => row.reduce((at, v, i) => v > row[at] ? i : at, 0);
const variance = (row, correction) => {
  const mean = sum(row) / row.length;
  return row.reduce((total, v) => total + (v - mean) ** 2, 0) / (row.length - correction);
};
const even = x => { const low = Math.floor(x); return x - low === .5 ? low + Math.abs(low % 2) : Math.round(x); };
function erf(x) { // Abramowitz and Stegun 7.1.26 is not exact enough for small x, where the series is
  if (Math.abs(x) < 2) {
    let term = x, total = x;
    for (let n = 1; n < 40; n++) { term *= -x * x / n; total += term / (2 * n + 1); }
    return total * 2 / Math.sqrt(Math.PI);
  }
  const t = 1 / (1 + .3275911 * Math.abs(x));
  const p = t * (.254829592 + t * (-.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - p * Math.exp(-x * x));
}

const EACH = { // operators that work element by element
  add: (a, b, k) => a + k * b, sub: (a, b, k) => a - k * b, mul: (a, b) => a * b, pow: (a, b) => a ** b, neg: a => -a,
  div: (a, b, how) => how === "floor" ? Math.floor(a / b) : how === "trunc" ? Math.trunc(a / b) : a / b,
  remainder: (a, b) => a - b * Math.floor(a / b), fmod: (a, b) => a % b, maximum: (a, b) => Math.max(a, b), minimum: (a, b) => Math.min(a, b),
  clamp: (a, low, high) => Math.min(Math.max(a, low ?? -Infinity), high ?? Infinity), where: (c, a, b) => c ? a : b,
  exp: Math.exp, log: Math.log, log2: Math.log2, sqrt: Math.sqrt,
  rsqrt: a => 1 / Math.sqrt(a), reciprocal: a => 1 / a, sin: Math.sin, cos: Math.cos, atan2: Math.atan2,
    hypot: (a, b) => Math.hypot(a, b),
  tanh: Math.tanh, sigmoid: a => 1 / (1 + Math.exp(-a)), relu: a => Math.max(a, 0), erf, abs: Math.abs, sign: Math.sign,
  gelu: (a, how) => how === "tanh" ? a / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (a + .044715 * a ** 3)))
    : a / 2 * (1 + erf(a / Math.SQRT2)),
  floor: Math.floor, ceil: Math.ceil, trunc: Math.trunc, round: even, isinf: a => Math.abs(a) === Infinity,
    isnan: a => a !== a,
  eq: (a, b) => a === b, ne: (a, b) => a !== b, lt: (a, b) => a < b, le: (a, b) => a <= b, gt: (a, b) => a > b,
    ge: (a, b) => a >= b,
  logical_and: (a, b) => a && b, logical_or: (a, b) => a || b, logical_not: a => !a,
  bitwise_and: (a, b) => a & b, bitwise_or: (a, b) => a | b,
  bitwise_not: (a, _, __, kind) => kind === "b" ? !a : ~a,
};
const OVER = { // operators that turn the numbers along axes into one
  sum, mean: row => sum(row) / row.length, amax: row => Math.max(...row),
  amin: row => Math.min(...row), max: row => Math.max(...row), min: row => Math.min(...row),
    any: row => row.some(Boolean),
  all: row => row.every(Boolean), argmax: best,
};
const ROWS = { // operators that turn each row along an axis into a row
  cumsum(row, out) { let total = 0; row.forEach((v, i) => { out[i] = total += v; }); },
  _softmax(row, out) {
    const top = Math.max(...row);
    let total = 0;
    for (let i = 0; i < row.length; i++) total += out[i] = Math.exp(row[i] - top);
    for (let i = 0; i < row.length; i++) out[i] /= total;
  },
  _log_softmax(row, out) {
    const top = Math.max(...row), total = Math.log(sum(Array.from(row, v => Math.exp(v - top))));
    row.forEach((v, i) => { out[i] = v - top - total; });
  },
};
const constant = (value, kind, shape) => tensor(new KINDS[kind](size(shape)).fill(value), shape);
// Element by element, from `x` at the index along an axis.
function gather(x, axis, index) {
  const [data, dense, at] = [flat(x), rowMajor(x.shape), flat(index)], own = axisOf(axis, x),
    out = new x.data.constructor(at.length);
  walk(index.shape, dense.map((step, i) => i === own ? 0 : step), 0,
    (i, from) => { out[i] = data[from + at[i] * dense[own]]; });
  return tensor(out, index.shape);
}
const take = (x, axis, index) => INDEX(x, [...Array(axisOf(axis, x)).fill(null), index]);
// Rows that several index tensors name together; axes without an index stay whole.
function INDEX(x, indices) {
  const named = indices.flatMap((index, axis) => index ? [axis] : []),
    rest = x.shape.map((_, i) => i).filter(i => !named.includes(i));
  const shapes = named.map(axis => indices[axis].shape), rank = Math.max(...shapes.map(shape => shape.length));
  const common = [...Array(rank).keys()].map(i => Math.max(1,
    ...shapes.map(shape => shape[shape.length - rank + i] ?? 1)));
  const zero = shapes.some(shape => shape.includes(0)) ? common.map((n, i) =>
    shapes.some(s => s[s.length - rank + i] === 0) ? 0 : n) : common;
  const at = named.map(axis => flat(indices[axis], zero)), tail = rest.map(axis => x.shape[axis]), width = size(tail),
    n = size(zero);
  const data = flat(permute(x, [...named, ...rest])), steps = rowMajor([...named.map(axis => x.shape[axis]), width]);
  const out = new data.constructor(n * width);
  for (let i = 0; i < n; i++) {
    const from = at.reduce((total, index, j) => total + (index[i] < 0 ? index[i] + x.shape[named[j]]
      : index[i]) * steps[j], 0);
    out.set(data.subarray(from, from + width), i * width);
  }
  const front = named.every((axis, i) => axis === named[0] + i) ? named[0] : 0,
    order = [...Array(rank + rest.length).keys()];
  return permute(tensor(out, [...zero, ...tail]), [...order.slice(rank, rank + front), ...order.slice(0, rank),
    ...order.slice(rank + front)]);
}
const VIEWS = { // the other operators: (arguments, kind, shape) to a tensor, a list of tensors, or a number
  view: ([x], _, shape) => tensor(flat(x), shape),
  permute: ([x, order]) => permute(x, order.map(axis => axisOf(axis, x))),
  transpose([x, a, b]) { const order = x.shape.map((_, i) => i);
    [order[axisOf(a, x)], order[axisOf(b, x)]] = [axisOf(b, x), axisOf(a, x)]; return permute(x, order); },
  expand: ([x], _, shape) => spread(x, shape),
  unsqueeze: ([x, axis], _, shape) => tensor(x.data, shape, x.steps.toSpliced(axis < 0 ? axis + shape.length : axis, 0,
    0), x.start),
  squeeze([x, axes], _, shape) {
    const gone = axes == null ? x.shape.map((_, i) => i) : [axes].flat().map(axis => axisOf(axis, x));
    return tensor(x.data, shape, x.steps.filter((_, i) => x.shape[i] !== 1 || !gone.includes(i)), x.start);
  },
  select([x, axis, at], _, shape) {
    const own = axisOf(axis, x), from = at < 0 ? at + x.shape[own] : at;
    return tensor(x.data, shape, x.steps.toSpliced(own, 1), x.start + from * x.steps[own]);
  },
  slice([x, axis, from, _, step], __, shape) {
    const own = axisOf(axis, x), n = x.shape[own], first = Math.min(Math.max((from ?? 0) < 0 ? from + n : from ?? 0,
      0), n);
    return tensor(x.data, shape, x.steps.with(own, x.steps[own] * step), x.start + first * x.steps[own]);
  },
  split_with_sizes([x, lengths, axis], _, shapes) {
    const own = axisOf(axis ?? 0, x);
    return shapes.map((shape, i) => tensor(x.data, shape, x.steps,
      x.start + lengths.slice(0, i).reduce((total, n) => total + n, 0) * x.steps[own]));
  },
  flip: ([x, axes]) => axes.reduce((view, axis) => {
    const own = axisOf(axis, x), step = view.steps[own];
    return tensor(x.data, x.shape, view.steps.with(own, -step), view.start + (x.shape[own] - 1) * step);
  }, x),
  getitem: ([list, at]) => list[at],
  clone: ([x]) => x,
  _local_scalar_dense: ([x]) => x.data[x.start],
  _to_copy: ([x], kind, shape) => map(kind === "b" ? v => v !== 0 : v => v, [x], kind, shape),
  cat([list, axis], kind, shape) {
    const out = constant(0, kind, shape), own = axis < 0 ? axis + shape.length : axis;
    let start = 0;
    for (const x of list.filter(x => x.shape.length === shape.length)) {
      const data = flat(x);
      walk(x.shape, out.steps, start, (i, to) => { out.data[to] = data[i]; });
      start += x.shape[own] * out.steps[own];
    }
    return out;
  },
  mm: ([a, b], _, shape) => matmul(a, b, shape),
  bmm: ([a, b], _, shape) => matmul(a, b, shape),
  addmm: ([bias, a, b, beta, alpha], kind, shape) => map((x, y) => beta * x + alpha * y, [bias, matmul(a, b, shape)],
    kind, shape),
  arange: ([from, , step], kind, shape) => tensor(KINDS[kind].from({ length: shape[0] }, (_, i) => from + i * step),
    shape),
  full: ([, value], kind, shape) => constant(value, kind, shape),
  full_like: ([, value], kind, shape) => constant(value, kind, shape),
  scalar_tensor: ([value], kind, shape) => constant(value, kind, shape),
  constant_pad_nd([x, pads, value], kind, shape) {
    const out = constant(value, kind, shape), data = flat(x);
    const start = shape.reduce((total, _, axis) => total + (pads[2 * (shape.length - 1 - axis)] ??
      0) * out.steps[axis], 0);
    walk(x.shape, out.steps, start, (i, to) => { out.data[to] = data[i]; });
    return out;
  },
  gather: ([x, axis, index]) => gather(x, axis, index),
  index_select: ([x, axis, index]) => take(x, axis, index),
  embedding: ([table, index]) => take(table, 0, index),
  index: ([x, indices]) => INDEX(x, indices),
  var: ([x, axes, correction], kind, shape) => reduce(row => variance(row, correction ?? 1), x, axes, kind, shape),
  var_mean: ([x, axes, correction], kinds, shapes) => [row => variance(row, correction ?? 1), OVER.mean].map((f, i) =>
    reduce(f, x, axes, kinds[i], shapes[i])),
  linalg_vector_norm: ([x, , axes], kind, shape) => reduce(row => Math.sqrt(row.reduce((total, v) => total + v * v, 0)),
    x, axes, kind, shape),
  sort_stable: ([x, , axis, descending], kinds) => ["f", "i"].map((_, i) => along((row, out) => {
    const order = [...row.keys()].sort((a, b) => (descending ? row[b] - row[a] : row[a] - row[b]) || a - b);
    order.forEach((from, to) => { out[to] = i ? from : row[from]; });
  }, x, axis, kinds[i])),
  max_dim: ([x, axis], kinds, shapes) => ["amax", "argmax"].map((name, i) =>
    reduce(OVER[name], x, axis, kinds[i], shapes[i])),
  native_layer_norm([x, over, weight, bias, eps], kinds, shapes) {
    const axes = over.map((_, i) => x.shape.length - over.length + i);
    const mean = reduce(OVER.mean, x, axes, "f", shapes[1]), rstd =
      reduce(row => 1 / Math.sqrt(variance(row, 0) + eps), x, axes, "f", shapes[2]);
    const normed = map((v, m, r) => (v - m) * r, [x, mean, rstd], "f", shapes[0]);
    return [map((v, w, b) => v * (w ?? 1) + (b ?? 0), [normed, weight, bias], "f", shapes[0]), mean, rstd];
  },
};
VIEWS._unsafe_view = VIEWS.reshape = VIEWS.view;
VIEWS.alias = VIEWS.detach = VIEWS.lift_fresh_copy = VIEWS.clone;

function run([name, args, kind, shape]) {
  if (EACH[name]) return map(EACH[name], args, kind, shape);
  if (OVER[name]) return reduce(OVER[name], args[0], args[1], kind, shape);
  if (ROWS[name]) return along(ROWS[name], args[0], args[1], kind);
  return VIEWS[name](args, kind, shape);
}

const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer;
function decode([kind, shape, text, scales]) {
  const data = new KINDS[kind](bytes(text));
  if (!scales) return tensor(data, shape);
  const scale = new Float32Array(bytes(scales)); // rows of 8 bits, each with a scale
  return tensor(Float32Array.from(data, (v, i) => v * scale[Math.floor(i / shape[1])]), shape);
}

// A function of the inputs (typed arrays or lists of numbers by name) that returns tensors by name. What does not
// depend on a changed
// input is kept from the last call.
function load({ inputs, constants, nodes, outputs }, pool) {
  const values = [...inputs.map(() => null), ...constants.map(i => pool[i])], first = values.length, known = new Map();
  const names = args => args.flatMap(arg => Array.isArray(arg) ? names(arg)
    : typeof arg === "string" && /^\d+$/.test(arg) ? [+arg] : []);
  const needs = values.map((_, i) => i < inputs.length ? 1 << i : 0);
  for (const [, args] of nodes) needs.push(names(args).reduce((mask, i) => mask | needs[i], 0));
  const given = arg => Array.isArray(arg) ? arg.map(given) : typeof arg !== "string" ? arg : /^\d+$/.test(arg)
    ? values[+arg]
    : /^(NaN|-?Infinity)$/.test(arg) ? Number(arg) : arg;
  return changes => {
    let changed = known.size ? 0 : -1;
    inputs.forEach((name, i) => {
      const { data, shape = [] } = changes[name];
      if (String(data) !== known.get(name)) changed |= 1 << i;
      known.set(name, String(data));
      values[i] = tensor(data, shape);
    });
    nodes.forEach(([name, args, kind, shape], i) => {
      if (changed === -1 || needs[first + i] & changed) values[first + i] = run([name, given(args), kind, shape]);
    });
    return Object.fromEntries(Object.entries(outputs).map(([name, i]) => [name, values[i]]));
  };
}
