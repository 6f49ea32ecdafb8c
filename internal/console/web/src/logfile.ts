// A whole log as a recording: to save it, or to play it.
import { CastWriter, castLine, maxRecording, type CastEvent, type Recording } from "./cast.ts";
import { commandText } from "./format.ts";
import { readEvent } from "./follower.ts";
import type { ProcessInfo, ReadResult } from "./protocol.ts";
import type { Size } from "./screen.ts";

const pageBytes = 512 << 10;

/** The largest recording that a browser may hold for a download. For more there is `tether record`. */
export const maxDownload = 512 << 20;

type Call = <R>(method: string, params: object) => Promise<R>;

/** Reads the log of a command from its first byte to the byte that was the last when this began, page by page. */
async function* eventsOf(call: Call, info: ProcessInfo, writer: CastWriter): AsyncGenerator<CastEvent[]> {
  const { sessionId, processId } = info;
  let end: number | undefined;
  for (let afterSeq = 0; ; ) {
    const page = await call<ReadResult>("tether/process/read", { sessionId, processId, afterSeq, maxBytes: pageBytes });
    end ??= page.nextSeq;
    const events = page.events.map((e) => readEvent(e)).filter((event) => event.kind === "output");
    yield events.flatMap((event) => writer.event(event) ?? []);
    const last = page.events.at(-1)?.seq;
    if (last === undefined || last + 1 >= end) return;
    afterSeq = last;
  }
}

function writerOf(info: ProcessInfo, size: Size): CastWriter {
  return new CastWriter({ title: commandText(info.argv).slice(0, 1000), ...size, startMs: info.startedAtMs, tty: info.tty });
}

/** The recording of a log as a file. tooLarge: the rest was left out. */
export async function castFile(call: Call, info: ProcessInfo, size: Size, onBytes: (bytes: number) => void): Promise<{ file: Blob; tooLarge: boolean }> {
  const writer = writerOf(info, size);
  let file = new Blob([writer.header()]);
  for await (const events of eventsOf(call, info, writer)) {
    file = new Blob([file, ...events.map(castLine)], { type: "application/x-asciicast" });
    onBytes(file.size);
    if (file.size > maxDownload) return { file, tooLarge: true };
  }
  return { file, tooLarge: false };
}

/** The recording of a log for the player. tooLarge: the rest was left out. */
export async function recordingOf(call: Call, info: ProcessInfo, size: Size): Promise<{ recording: Recording; tooLarge: boolean }> {
  const writer = writerOf(info, size);
  const recording: Recording = { title: commandText(info.argv), ...size, events: [] };
  let length = 0;
  for await (const events of eventsOf(call, info, writer)) {
    for (const event of events) {
      recording.events.push(event);
      length += event.text.length;
    }
    if (length > maxRecording) return { recording, tooLarge: true };
  }
  return { recording, tooLarge: false };
}

/** Hands a file to the browser's downloads. */
export function download(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
