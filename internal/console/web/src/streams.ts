// Output as text for the terminal: each stream decoded for itself, standard error set apart.
import type { Piece } from "./pages.ts";

/** Which streams are shown. */
export type Shown = "all" | "stdout" | "stderr";

/** Standard error is slanted and in the terminal's colour 9, so that not colour alone tells it apart. */
const errorOn = "\x1b[3;91m";
const errorOff = "\x1b[23;39m";

/** More combining marks than this on one character are dropped: no script needs them, and thousands of them stop a browser. */
const marks = /([\p{M}\p{Cf}]{8})[\p{M}\p{Cf}]+/gu;

export class Streams {
  private decoders = new Map<string, TextDecoder>();

  constructor(public shown: Shown = "all") {}

  /** Whether output of a stream is shown. */
  shows(stream: string): boolean {
    return this.shown === "all" || stream === "pty" || stream === this.shown;
  }

  /** The text of a piece; bytes that are not UTF-8 become U+FFFD, and a character that a later piece completes waits for it. */
  text(piece: Pick<Piece, "stream" | "bytes">): string {
    const { stream, bytes } = piece;
    if (!this.shows(stream)) return "";
    let decoder = this.decoders.get(stream);
    if (!decoder) this.decoders.set(stream, (decoder = new TextDecoder("utf-8", { ignoreBOM: true })));
    let text = decoder.decode(bytes, { stream: true });
    if (text.length !== bytes.length) text = text.replace(marks, "$1");
    if (stream !== "stderr" || text === "" || this.shown === "stderr") return text;
    // A program that resets its own colours is still standard error afterwards.
    return errorOn + text.replace(/\x1b\[0?m/g, `$&${errorOn}`) + errorOff;
  }
}
