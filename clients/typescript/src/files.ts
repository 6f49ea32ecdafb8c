// The files of the executor.

import { bytesOf, concat, decode, encode, sha256 } from "./bytes.js";
import type { Client } from "./client.js";
import { ConnectionLost, FileChangedError } from "./errors.js";
import * as protocol from "./protocol.js";

const maxBlock = 1 << 20; // bytes of a file in a message, at most
const firstBlock = 128 << 10;

/**
 * How large the next block is. On a slow link blocks stay small: behind a large one, the sign that the server is there comes so late
 * that the connection counts as lost, again and again.
 */
export function nextBlock(block: number, tookMs: number): number {
  if (tookMs < 500) return Math.min(2 * block, maxBlock);
  return tookMs > 2000 ? Math.max(block / 2, firstBlock) : block;
}

/** pathURI is the URI of an absolute path of a POSIX system. */
export function pathURI(path: string): string {
  if (path.startsWith("file:")) return path;
  if (!path.startsWith("/")) throw new RangeError(`${path} is not an absolute path`);
  return "file:///" + path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
}

/** Files reads and changes the files of an executor. Paths are absolute. */
export class Files {
  constructor(private readonly client: Client) {}

  /** The kind, the size and the times of a file. With mode, also the permissions. */
  stat(path: string, options: { mode?: boolean } = {}): Promise<protocol.MetadataResult> {
    return this.client.call("fs/getMetadata", { path: pathURI(path), ...(options.mode ? { tetherMode: true } : {}) }, true);
  }

  /** The names in a directory. */
  async list(path: string): Promise<protocol.DirectoryEntry[]> {
    return (await this.client.call("fs/readDirectory", { path: pathURI(path) }, true)).entries;
  }

  /** The content of a file. */
  async read(path: string): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.blocks(path)) pieces.push(piece);
    return concat(pieces);
  }

  /** The content of a file in blocks. After a lost connection it goes on where it was, if the file has not changed. */
  async *blocks(path: string): AsyncGenerator<Uint8Array> {
    const uri = pathURI(path);
    let offset = 0;
    let size = firstBlock;
    let before: protocol.MetadataResult | undefined;
    for (;;) {
      const connection = await this.client.ready();
      const handleId = this.client.newId().slice(-32);
      try {
        const now = (await connection.call(protocol.MethodFsGetMetadata, { path: uri })) as protocol.MetadataResult;
        if (offset > 0 && (now.size !== before!.size || now.modifiedAtMs !== before!.modifiedAtMs)) {
          throw new FileChangedError(`${path} was changed while it was read`);
        }
        before = now;
        await connection.call(protocol.MethodFsOpen, { handleId, path: uri, mode: "read" });
        try {
          for (;;) {
            const begun = performance.now();
            const answer = (await connection.call(protocol.MethodFsReadBlock, { handleId, offset, len: size })) as protocol.ReadBlockResult;
            size = nextBlock(size, performance.now() - begun);
            const data = decode(answer.chunk);
            offset += data.length;
            if (data.length > 0) yield data;
            if (answer.eof) return;
          }
        } finally {
          // Handles end with their connection.
          if (!connection.cause) await connection.call(protocol.MethodFsClose, { handleId }).catch(() => {});
        }
      } catch (e) {
        if (!(e instanceof ConnectionLost)) throw e; // the next connection goes on
      }
    }
  }

  /** Replaces the content of a file, or creates it, all or nothing. mode are the permissions of a new file. */
  async write(path: string, content: string | Uint8Array, options: { mode?: number } = {}): Promise<void> {
    const data = bytesOf(content);
    if (!this.client.has("upload")) {
      await this.client.call("fs/writeFile", { path: pathURI(path), dataBase64: encode(data) });
      return;
    }
    const uploadId = this.client.newId();
    const mode = options.mode === undefined ? {} : { mode: options.mode };
    const opened = await this.client.call("tether/upload/open", { uploadId, path: pathURI(path), size: data.length, ...mode }, true);
    let size = firstBlock;
    try {
      for (let offset = 0; offset < data.length; ) {
        const block = data.subarray(offset, offset + Math.min(size, opened.maxBlock));
        const begun = performance.now();
        await this.client.call("tether/upload/write", { uploadId, offset, chunk: encode(block) }, true);
        size = nextBlock(size, performance.now() - begun);
        offset += block.length;
      }
      await this.client.call("tether/upload/commit", { uploadId, sha256: await sha256(data) }, true);
    } catch (e) {
      await this.client.call("tether/upload/abort", { uploadId }, true).catch(() => {});
      throw e;
    }
  }

  /** Creates a directory, and those above it that are missing. */
  async makeDirectory(path: string): Promise<void> {
    await this.client.call("fs/createDirectory", { path: pathURI(path), recursive: true }, true);
  }

  /** Removes a file, or with recursive a directory with all that is in it. */
  async remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    await this.client.call("fs/remove", { path: pathURI(path), recursive: options.recursive ?? false, force: false });
  }
}
