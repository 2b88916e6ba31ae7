// What is made of a reader's text, as text.py states it: ids of tokenizers, and the training of byte pair encoding.
const utf8 = text => Array.from(text, letter => letter.codePointAt(0)).flatMap(p => p < 128 ? [p]
  : [...p < 2048 ? [192 | p >> 6] : [...p < 65536 ? [224 | p >> 12] : [240 | p >> 18, 128 | p >> 12 & 63],
    128 | p >> 6 & 63], 128 | p & 63]);
const cutter = pattern => pattern ? text => text.match(RegExp(pattern + "|[^]", "gu")) ?? []
  : text => text ? [text] : [];
const idAt = ids => Array.isArray(ids) ? i => ids[i] : i => ids + i; // a list, or the first of consecutive ids
const pairOf = (left, right) => left * 2 ** 24 + right;

// How a token is shown, from its bytes, and its text, if it is one.
const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥" }, reader = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
function textOf(token) { try { return reader.decode(Uint8Array.from(token)); } catch { return null; } }
const hex = (n, digits) => n.toString(16).toUpperCase().padStart(digits, "0");
const shown = token => harmless(textOf(token)?.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Z}\uFE00-\uFE0F]/gu,
  sign => SIGNS[sign] ?? `U+${hex(sign.codePointAt(0), 4)}`).replace(/^\p{M}/u, "◌$&")
  ?? `<${token.map(byte => hex(byte, 2)).join(" ")}>`);

const TOKENIZERS = { // each gives the bytes of its tokens by id, and a function from a piece of text to ids
  words({ words, unknown }) {
    const ids = new Map(words.map((word, i) => [word, i]));
    return [words.map(utf8), piece => [ids.get(piece) ?? unknown]];
  },
  merges({ bytes, merges, made, letters, whole }) {
    const byte = idAt(bytes), id = idAt(made), tokens = [], ranks = new Map(), known = new Map();
    for (let i = 0; i < 256; i++) tokens[byte(i)] = [i];
    for (const letter in letters) tokens[letters[letter]] = utf8(letter);
    for (let i = 0; i < merges.length; i += 2) {
      const [left, right] = merges.slice(i, i + 2);
      tokens[id(i / 2)] = [...tokens[left], ...tokens[right]];
      ranks.set(pairOf(left, right), [i, id(i / 2)]);
    }
    if (whole) tokens.forEach((token, i) => known.set(String(token), i));
    return [tokens, piece => {
      const own = known.get(String(utf8(piece)));
      if (own !== undefined) return [own];
      const ids = letters ? [...piece].flatMap(letter => letters[letter] ?? utf8(letter).map(byte))
        : utf8(piece).map(byte);
      for (;;) { // the lowest rank first, and then the leftmost
        let best, at;
        for (let i = 1; i < ids.length; i++) {
          const found = ranks.get(pairOf(ids[i - 1], ids[i]));
          if (found && !(best?.[0] <= found[0])) [best, at] = [found, i - 1];
        }
        if (!best) return ids;
        ids.splice(at, 2, best[1]);
      }
    }];
  },
  pieces({ ids, pieces, scores, bytes, unknown }) {
    const id = idAt(ids), tokens = [], at = new Map(pieces.map((piece, i) => [piece, i])), byte = idAt(bytes),
      longest = Math.max(...pieces.map(piece => [...piece].length));
    if (bytes !== undefined) for (let i = 0; i < 256; i++) tokens[byte(i)] = [i];
    pieces.forEach((piece, i) => { tokens[id(i)] = utf8(piece); });
    return [tokens, word => {
      const letters = [...word], best = [{ score: 0 }];
      letters.forEach((letter, from) => {
        const reach = (end, piece) => {
          const score = best[from].score + scores[piece];
          if (!(best[end]?.score >= score)) best[end] = { score, from, piece, letter };
        };
        let text = "";
        for (let end = from + 1; end <= letters.length && end <= from + longest; end++) {
          if (at.has(text += letters[end - 1])) reach(end, at.get(text));
        }
        if (!at.has(letter)) reach(from + 1, pieces.length);
      });
      const found = [];
      for (let end = letters.length; end; end = best[end].from) found.unshift(best[end]);
      return found.flatMap(({ piece, letter }, i) => piece < pieces.length ? [id(piece)]
        : bytes !== undefined ? utf8(letter).map(byte) : found[i - 1]?.piece === piece ? [] : [unknown]);
    }];
  },
};
function tokenizer(spec) {
  const [tokens, encode] = TOKENIZERS[spec.kind](spec), cut = cutter(spec.pattern), { prefix = "", special } = spec;
  for (const i in special) tokens[i] = utf8(special[i]);
  return { tokens, vocabulary: tokens.map(shown), encode(text) {
    const pieces = cut(text && prefix + text), ids = pieces.flatMap(encode);
    return [ids, ids.map((i, at) => shown(tokens[i] ?? utf8(pieces[at])))];
  } };
}

const ints = (data, shape = [data.length]) => ({ data: Int32Array.from(data), shape });
const ENCODERS = { // each gives a function from a text to tensors for the graph and lists to show
  encoder({ tokenizer: spec, n_ctx }) {
    const { tokens, vocabulary, encode } = tokenizer(spec);
    return { textOf: i => textOf(tokens[i]), read(text) {
      const [ids, shown] = encode(text).map(found => found.slice(-n_ctx));
      return { ids: ints([...ids, ...Array(n_ctx - ids.length).fill(0)]), n: ints([ids.length], []), tokens: shown,
        vocabulary };
    } };
  },
  encoders({ tokenizers }) {
    const all = tokenizers.map(tokenizer);
    return { read(text) {
      const found = all.map(({ encode }) => encode(text));
      return { ids: found.map(([ids]) => ids), tokens: found.map(([, tokens]) => tokens),
        n: ints(found.map(([ids]) => ids.length)), bytes: ints([utf8(text).length], []),
        words: ints([text.match(/\P{White_Space}+/gu)?.length ?? 0], []) };
    } };
  },
  training({ merges, width, pairs, pattern }) {
    const cut = cutter(pattern);
    return { read(text) {
      let words = cut(text).map(utf8);
      const tokens = [...Array(256).keys()].map(i => [i]), rows = [], tops = [];
      for (;;) {
        const counts = new Map();
        for (const word of words) for (let i = 1; i < word.length; i++) {
          const pair = pairOf(word[i - 1], word[i]);
          counts.set(pair, (counts.get(pair) ?? 0) + 1);
        }
        const top = [...counts].sort(([a, m], [b, n]) => n - m || a - b).map(([pair, n]) =>
          [n, Math.floor(pair / 2 ** 24), pair % 2 ** 24]);
        rows.push(words.flat());
        tops.push(top);
        if (rows.length > merges || !top.length) break;
        const [[, left, right]] = top, made = tokens.push([...tokens[left], ...tokens[right]]) - 1;
        words = words.map(word => {
          const merged = [];
          for (let i = 0; i < word.length; i++) {
            merged.push(word[i] === left && word[i + 1] === right ? (i++, made) : word[i]);
          }
          return merged;
        });
      }
      const all = [...Array(merges + 1).keys()].map(i => Math.min(i, rows.length - 1));
      const padded = (row, n) => [...row, ...Array(n).fill(-1)].slice(0, n);
      const column = at => ints(all.flatMap(i => padded(tops[i].map(pair => pair[at]), pairs)), [merges + 1, pairs]);
      return { ids: ints(all.flatMap(i => padded(rows[i], width)), [merges + 1, width]),
        n: ints(all.map(i => rows[i].length)), counts: column(0), left: column(1), right: column(2),
        made: ints([rows.length - 1], []), vocabulary: tokens.map(shown) };
    } };
  },
};
