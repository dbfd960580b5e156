/** JSON as it was written: numbers keep every digit, keys their order, and a part of it is a slice of
 * the text, not something made anew. `JSON.parse` rounds whole numbers above 2^53. */

export type JsonNode =
  | { kind: "object"; start: number; end: number; entries: { key: string; value: JsonNode }[] }
  | { kind: "array"; start: number; end: number; items: JsonNode[] }
  | { kind: "string" | "number" | "word"; start: number; end: number };

export class JsonError extends Error {
  constructor(
    message: string,
    readonly at: number,
  ) {
    super(message);
  }
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const MOST_DEPTH = 500;

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) return null;
    this.at = pattern.lastIndex;
    return found[0];
  }

  take(mark: string): boolean {
    this.match(SPACE);
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }

  need(mark: string): void {
    if (!this.take(mark)) throw this.wrong(`expected ${mark}`);
  }

  wrong(problem: string): JsonError {
    const before = this.text.slice(0, this.at).split("\n");
    const place = `line ${before.length}, column ${before[before.length - 1]!.length + 1}`;
    return new JsonError(`${problem} at ${place}`, this.at);
  }

  value(depth: number): JsonNode {
    if (depth > MOST_DEPTH) throw this.wrong("nested too deeply");
    this.match(SPACE);
    const start = this.at;
    if (this.take("{")) {
      const entries: { key: string; value: JsonNode }[] = [];
      if (!this.take("}")) {
        do {
          this.match(SPACE);
          const key = this.match(STRING);
          if (key === null) throw this.wrong("expected a key in double quotes");
          this.need(":");
          entries.push({ key: JSON.parse(key) as string, value: this.value(depth + 1) });
        } while (this.take(","));
        this.need("}");
      }
      return { kind: "object", start, end: this.at, entries };
    }
    if (this.take("[")) {
      const items: JsonNode[] = [];
      if (!this.take("]")) {
        do items.push(this.value(depth + 1));
        while (this.take(","));
        this.need("]");
      }
      return { kind: "array", start, end: this.at, items };
    }
    if (this.match(STRING) !== null) return { kind: "string", start, end: this.at };
    if (this.match(NUMBER) !== null) return { kind: "number", start, end: this.at };
    if (this.match(WORD) !== null) return { kind: "word", start, end: this.at };
    throw this.wrong(this.at >= this.text.length ? "it ends too early" : "expected a value");
  }
}

export function parseJson(text: string): JsonNode {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.match(SPACE);
  if (reader.at < text.length) throw reader.wrong("expected the end");
  return value;
}

/** The source of one field of an object, or undefined where there is none. */
export function fieldSource(text: string, name: string): string | undefined {
  const root = parseJson(text);
  if (root.kind !== "object") return undefined;
  const entry = root.entries.find((one) => one.key === name);
  return entry && text.slice(entry.value.start, entry.value.end);
}

/** The same document on several lines; every number and string as it was written. */
export function pretty(text: string): string {
  const write = (node: JsonNode, indent: string): string => {
    const inner = `${indent}  `;
    if (node.kind === "object") {
      if (node.entries.length === 0) return "{}";
      const lines = node.entries.map((one) => `${inner}${JSON.stringify(one.key)}: ${write(one.value, inner)}`);
      return `{\n${lines.join(",\n")}\n${indent}}`;
    }
    if (node.kind === "array") {
      if (node.items.length === 0) return "[]";
      return `[\n${node.items.map((one) => inner + write(one, inner)).join(",\n")}\n${indent}]`;
    }
    return text.slice(node.start, node.end);
  };
  return write(parseJson(text), "");
}

/** An object of which some values are JSON already. */
export function joinJson(values: Record<string, unknown>, sources: Record<string, string>): string {
  const parts = Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
  for (const [key, source] of Object.entries(sources)) parts.push(`${JSON.stringify(key)}:${source}`);
  return `{${parts.join(",")}}`;
}
