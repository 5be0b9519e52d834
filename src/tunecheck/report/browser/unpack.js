// The data in the page: JSON, and JSON packed as raw deflate in base64.

const embedded = (id) => JSON.parse(document.getElementById(id).textContent);

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

async function unpack(base64) {
  const bytes = bytesOf(base64);
  if (typeof DecompressionStream === "undefined") return JSON.parse(new TextDecoder().decode(inflate(bytes)));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

/** RFC 1951, for browsers that cannot do it themselves. */
function inflate(source) {
  let out = new Uint8Array(source.length * 6 + 1024);
  let size = 0;
  let place = 0;
  let held = 0;
  let count = 0;
  const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
  const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
  const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

  function bits(number) {
    while (count < number) {
      if (place >= source.length) throw new Error("packed data ends too early");
      held |= source[place++] << count;
      count += 8;
    }
    const found = held & ((1 << number) - 1);
    held >>>= number;
    count -= number;
    return found;
  }
  /** How many codes there are of each length, and the symbols in the order of their codes. */
  function codes(lengths) {
    const counts = new Uint16Array(16);
    for (const length of lengths) counts[length]++;
    counts[0] = 0;
    const starts = new Uint16Array(17);
    for (let length = 1; length < 16; length++) starts[length + 1] = starts[length] + counts[length];
    const symbols = new Uint16Array(lengths.length);
    lengths.forEach((length, symbol) => length && (symbols[starts[length]++] = symbol));
    return { counts, symbols };
  }
  function symbol({ counts, symbols }) {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length < 16; length++) {
      code |= bits(1);
      if (code - first < counts[length]) return symbols[index + code - first];
      index += counts[length];
      first = (first + counts[length]) << 1;
      code <<= 1;
    }
    throw new Error("packed data is damaged");
  }
  function room(more) {
    if (size + more <= out.length) return;
    const larger = new Uint8Array(2 * (size + more));
    larger.set(out);
    out = larger;
  }
  function described() {
    const many = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const lengths = new Array(19).fill(0);
    for (let at = 0; at < many[2]; at++) lengths[ORDER[at]] = bits(3);
    const own = codes(lengths);
    const all = [];
    while (all.length < many[0] + many[1]) {
      const found = symbol(own);
      if (found < 16) all.push(found);
      else {
        const value = found === 16 ? all[all.length - 1] : 0;
        let times = found === 16 ? 3 + bits(2) : found === 17 ? 3 + bits(3) : 11 + bits(7);
        while (times--) all.push(value);
      }
    }
    return [codes(all.slice(0, many[0])), codes(all.slice(many[0]))];
  }
  function fixed() {
    const lengths = Array.from({ length: 288 }, (_, at) => (at < 144 ? 8 : at < 256 ? 9 : at < 280 ? 7 : 8));
    return [codes(lengths), codes(new Array(30).fill(5))];
  }
  function stored() {
    held = count = 0;
    const length = source[place] | (source[place + 1] << 8);
    room(length);
    out.set(source.subarray(place + 4, place + 4 + length), size);
    place += 4 + length;
    size += length;
  }
  for (let last = 0; !last; ) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) {
      stored();
      continue;
    }
    const [literals, distances] = kind === 1 ? fixed() : described();
    for (let found = symbol(literals); found !== 256; found = symbol(literals)) {
      room(258);
      if (found < 256) out[size++] = found;
      else {
        const length = LENGTHS[found - 257] + bits(LENGTH_BITS[found - 257]);
        const code = symbol(distances);
        const extra = code < 4 ? 0 : (code >> 1) - 1;
        const distance = (code < 4 ? code : (2 + (code & 1)) << extra) + 1 + bits(extra);
        for (let at = 0; at < length; at++, size++) out[size] = out[size - distance];
      }
    }
  }
  return out.subarray(0, size);
}

/** Packed records by number; unpacks the block that a record is in, and keeps the last few. */
class Packed {
  constructor(prefix, starts, count) {
    Object.assign(this, { prefix, starts, count, kept: new Map() });
  }
  async get(number) {
    if (number >= this.count) return null;
    let low = 0;
    for (let high = this.starts.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= number) low = middle;
      else high = middle;
    }
    if (!this.kept.has(low)) {
      this.kept.set(low, unpack(embedded(`${this.prefix}-${low}`)));
      if (this.kept.size > 12) this.kept.delete(this.kept.keys().next().value);
    }
    return (await this.kept.get(low))[number - this.starts[low]];
  }
}
