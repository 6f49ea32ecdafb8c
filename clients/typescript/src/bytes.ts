// Bytes and text, under Node and in browsers.

/** encode returns standard base64. */
export function encode(data: Uint8Array): string {
  if (typeof Buffer !== "undefined") return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
  let text = "";
  for (let at = 0; at < data.length; at += 0x8000) text += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return btoa(text);
}

/** decode returns the bytes of standard base64. */
export function decode(text: string): Uint8Array {
  if (typeof Buffer !== "undefined") return Buffer.from(text, "base64");
  const raw = atob(text);
  const data = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) data[i] = raw.charCodeAt(i);
  return data;
}

/** bytesOf is the UTF-8 of a text, or the bytes themselves. */
export function bytesOf(data: string | Uint8Array): Uint8Array {
  return typeof data === "string" ? new TextEncoder().encode(data) : data;
}

/** concat joins pieces. */
export function concat(pieces: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of pieces) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}

/** sha256 is the digest of data in hexadecimal digits. */
export async function sha256(data: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data as Uint8Array<ArrayBuffer>));
  return Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** A ByteQueue is a sequence of bytes that grows at its end and shrinks at its beginning. */
export class ByteQueue {
  length = 0;
  private blocks: Uint8Array[] = [];
  private skip = 0; // bytes of the first block that are gone

  push(data: Uint8Array): void {
    if (data.length === 0) return;
    this.length += data.length;
    const last = this.blocks.at(-1);
    // Small pieces are joined, so that many of them cost little more than their bytes.
    if (last && last.length + data.length <= joinBelow) this.blocks[this.blocks.length - 1] = concat([last, data]);
    else this.blocks.push(data);
  }

  /** Removes and returns the first bytes: a block, or what is left of one. */
  shift(): Uint8Array {
    const first = this.blocks.shift()!.subarray(this.skip);
    this.skip = 0;
    this.length -= first.length;
    return first;
  }

  /** Removes the first n bytes. */
  drop(n: number): void {
    this.length -= n;
    this.skip += n;
    while (this.blocks.length > 0 && this.skip >= this.blocks[0]!.length) this.skip -= this.blocks.shift()!.length;
  }

  /** Returns at most size bytes from an offset on. */
  slice(offset: number, size: number): Uint8Array {
    const pieces: Uint8Array[] = [];
    offset += this.skip;
    for (const block of this.blocks) {
      if (size === 0) break;
      const piece = block.subarray(offset, offset + size);
      offset = Math.max(0, offset - block.length);
      size -= piece.length;
      if (piece.length > 0) pieces.push(piece);
    }
    return pieces.length === 1 ? pieces[0]! : concat(pieces);
  }
}

/** joinBelow is the size up to which pieces of a ByteQueue are joined. */
const joinBelow = 4 << 10;

/** A Signal wakes those that wait for it, once. */
export class Signal {
  private resolvers: (() => void)[] = [];

  /** The promise ends with the next send, or after a time. It returns whether the signal came. */
  wait(ms?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(() => resolve(false), ms);
      this.resolvers.push(() => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  send(): void {
    const waiting = this.resolvers;
    this.resolvers = [];
    for (const resolve of waiting) resolve();
  }
}
