/** One stream of server-sent events over fetch: EventSource hides status codes, and hears named
 * events only under names that it knows beforehand. */

export interface Event {
  topic: string;
  project: string;
  at: string;
  queue?: string;
  jobs?: string[];
  worker?: string;
  details?: Record<string, unknown>;
}

export type Told =
  | { kind: "event"; event: Event }
  | { kind: "open"; gap: boolean }
  | { kind: "down"; since: number }
  | { kind: "ended" };

const SILENCE_MS = 40_000;
const MOST_WAIT_MS = 15_000;

/** Splits what arrives into messages; a chunk may end anywhere. */
export class Parser {
  private rest = "";

  push(chunk: string): { id?: string; data?: string }[] {
    const text = this.rest + chunk;
    // A line's end may be cut in two: what comes next says whether this one is over.
    const held = text.endsWith("\r") ? "\r" : "";
    const parts = text.slice(0, text.length - held.length).replace(/\r\n?/g, "\n").split("\n\n");
    this.rest = (parts.pop() ?? "") + held;
    return parts.map((part) => {
      const message: { id?: string; data?: string } = {};
      for (const line of part.split("\n")) {
        const at = line.indexOf(":");
        if (at <= 0) continue;
        const [name, value] = [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")];
        if (name === "id") message.id = value;
        if (name === "data") message.data = message.data === undefined ? value : `${message.data}\n${value}`;
      }
      return message;
    });
  }
}

/** Follows the stream until it is told to stop; begins anew after a break, where it left off. */
export function follow(base: string, tell: (told: Told) => void): () => void {
  let stopped = false;
  let lastId = "";
  let wait = 500;
  let abort = new AbortController();

  async function read(): Promise<void> {
    const query = lastId === "" ? "" : `?lastEventId=${encodeURIComponent(lastId)}`;
    abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), SILENCE_MS);
    try {
      const answer = await fetch(`${base}/api/v1/events${query}`, {
        credentials: "same-origin",
        signal: abort.signal,
        headers: { Accept: "text/event-stream" },
      });
      if (answer.status === 401 || answer.status === 403) {
        stopped = true;
        tell({ kind: "ended" });
        return;
      }
      if (answer.status === 410) lastId = "";
      if (!answer.ok || answer.body === null) throw new Error(`status ${answer.status}`);
      tell({ kind: "open", gap: lastId === "" });
      wait = 500;
      const parser = new Parser();
      const decoder = new TextDecoder();
      const reader = answer.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), SILENCE_MS);
        for (const message of parser.push(decoder.decode(value, { stream: true }))) {
          if (message.id !== undefined) lastId = message.id;
          if (message.data !== undefined) tell({ kind: "event", event: JSON.parse(message.data) as Event });
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async function run(): Promise<void> {
    while (!stopped) {
      try {
        await read();
      } catch {
        // told below: a stream that broke is tried again
      }
      if (stopped) return;
      tell({ kind: "down", since: Date.now() });
      await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random())));
      wait = Math.min(MOST_WAIT_MS, wait * 2);
    }
  }

  void run();
  return () => {
    stopped = true;
    abort.abort();
  };
}
