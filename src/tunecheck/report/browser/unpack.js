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
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old: the report needs Chrome 103, Firefox 113, Safari 16.4 or newer");
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
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
