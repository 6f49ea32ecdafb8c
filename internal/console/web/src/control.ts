// Taking over: who types into a command, and what this page may send to it.
import { CallError } from "./connection.ts";
import { Input, randomId } from "./input.ts";
import type { Screen } from "./screen.ts";

type Call = <R>(method: string, params: object) => Promise<R>;

export interface ControlState {
  holder: string | undefined; // the name of the client that types
  mine: boolean;
}

export class Control {
  state: ControlState = { holder: undefined, mine: false };
  onChange: (state: ControlState) => void = () => {};
  private readonly input: Input;
  private sized = "";
  private left = false;

  constructor(
    private readonly call: Call,
    private readonly target: { sessionId: string; processId: string },
    readonly tty: boolean,
    private readonly screen: Screen,
    private readonly onError: (message: string) => void,
  ) {
    this.input = new Input(call, target, onError);
  }

  /** A notification, or the list, says who types. */
  told(holder: string | undefined, mine: boolean): void {
    const lost = this.state.mine && !mine;
    this.apply({ holder, mine });
    if (lost && holder) this.onError(`${holder} has taken over.`);
  }

  async take(): Promise<void> {
    try {
      await this.call("tether/process/takeControl", this.target);
      if (this.left) {
        await this.call("tether/process/giveControl", this.target);
        return;
      }
      this.apply({ holder: "You", mine: true });
      await this.resize();
    } catch (error) {
      this.fail(error);
    }
  }

  async give(): Promise<void> {
    if (!this.state.mine) return;
    this.apply({ holder: undefined, mine: false });
    try {
      await this.call("tether/process/giveControl", this.target);
    } catch (error) {
      this.fail(error);
    }
  }

  /** The person has turned to another command. Control that is granted later is given back. */
  async leave(): Promise<void> {
    this.left = true;
    await this.give();
  }

  /** A new connection holds nothing: what this page had, it takes again, and the size of another page may be in force. */
  reconnected(): void {
    this.sized = "";
    if (this.state.mine) void this.take();
  }

  type(data: string): void {
    if (!this.state.mine) return;
    const text = this.tty ? data : data.replaceAll("\r", "\n"); // a terminal makes the end of a line out of Enter, a pipe does not
    if (!this.input.write(new TextEncoder().encode(text))) this.onError("This is too much input at once: at most 1 MiB can wait.");
  }

  typeBinary(data: string): void {
    if (this.state.mine) this.input.write(Uint8Array.from(data, (c) => c.charCodeAt(0)));
  }

  /** Gives the command the size of this page's terminal, if this page types. */
  async resize(): Promise<void> {
    if (!this.state.mine || !this.tty) return;
    this.screen.setSize(undefined);
    const { rows, cols } = this.screen.terminal;
    const size = `${cols}x${rows}`;
    if (size === this.sized) return;
    this.sized = size;
    try {
      await this.call("tether/process/resize", { ...this.target, rows, cols });
    } catch (error) {
      this.fail(error);
    }
  }

  async signal(signal: string): Promise<void> {
    try {
      await this.call("tether/process/signal", { ...this.target, signal, onceId: randomId() });
    } catch (error) {
      this.fail(error);
    }
  }

  /** Ctrl-C: the key on a terminal, SIGINT otherwise. */
  async interrupt(): Promise<void> {
    if (this.tty && this.state.mine) this.type("\x03");
    else await this.signal("SIGINT");
  }

  async closeInput(): Promise<void> {
    try {
      await this.call("tether/process/closeStdin", { ...this.target, onceId: randomId() });
    } catch (error) {
      this.fail(error);
    }
  }

  async end(): Promise<void> {
    try {
      await this.call("tether/process/terminate", this.target);
    } catch (error) {
      this.fail(error);
    }
  }

  private apply(state: ControlState): void {
    if (state.holder === this.state.holder && state.mine === this.state.mine) return;
    this.state = state;
    this.screen.terminal.options.disableStdin = !state.mine;
    this.screen.terminal.options.cursorBlink = state.mine;
    this.screen.typing = state.mine && this.tty;
    if (!state.mine) this.sized = "";
    this.onChange(state);
  }

  private fail(error: unknown): void {
    this.onError(error instanceof CallError || error instanceof Error ? error.message : String(error));
  }
}
