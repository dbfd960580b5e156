import { Copy } from "./text";

/** What is shown once, and nowhere again. */
export function Secret({ value }: { value: string }) {
  return (
    <pre className="command secret">
      <code>{value}</code>
      <Copy text={value} label="Copy it" />
    </pre>
  );
}
