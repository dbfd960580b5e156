/** JSON as it was stored: a tree over the text, one level at a time, cut where it is long. */
import { useMemo, useState } from "react";
import { bytes, plain } from "../lib/format";
import { parseJson, pretty, type JsonNode } from "../lib/json";
import { Copy } from "./text";

const LONG = 1_000;
const MANY = 100;
const LARGE_BYTES = 262_144;

export function JsonView({ source, name }: { source: string; name: string }) {
  const [asText, setAsText] = useState(false);
  const [opened, setOpened] = useState(source.length <= LARGE_BYTES);
  const root = useMemo(() => (opened ? parseJson(source) : null), [opened, source]);
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([source], { type: "application/json" }));
    link.download = `${name}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div className="json">
      <div className="tools">
        <span className="faint">{bytes(source.length)}</span>
        {root !== null && (
          <button type="button" className="link" onClick={() => setAsText(!asText)}>
            {asText ? "Tree" : "Text"}
          </button>
        )}
        <Copy text={source} label={`Copy the ${name}`} />
        <button type="button" className="link" onClick={download}>
          Download
        </button>
      </div>
      {root === null ? (
        <button type="button" onClick={() => setOpened(true)}>
          Show {bytes(source.length)}
        </button>
      ) : asText ? (
        <pre>{plain(pretty(source))}</pre>
      ) : (
        <div className="tree">
          <Node node={root} text={source} open />
        </div>
      )}
    </div>
  );
}

function Node({ node, text, label, open = false }: { node: JsonNode; text: string; label?: string; open?: boolean }) {
  const [shown, setShown] = useState(open);
  const [most, setMost] = useState(MANY);
  const name = label === undefined ? null : <span className="key">{plain(label)}: </span>;
  if (node.kind === "object" || node.kind === "array") {
    const all = node.kind === "object" ? node.entries : node.items.map((value, at) => ({ key: String(at), value }));
    const [left, right] = node.kind === "object" ? "{}" : "[]";
    if (all.length === 0) return <div>{name}{left}{right}</div>;
    return (
      <div>
        <button type="button" className="link fold" aria-expanded={shown} onClick={() => setShown(!shown)}>
          {shown ? "▾" : "▸"} {name}
          <span className="faint">{shown ? left : `${left} ${all.length} ${right}`}</span>
        </button>
        {shown && (
          <div className="inner">
            {all.slice(0, most).map((one) => (
              <Node key={one.key} node={one.value} text={text} label={one.key} open={all.length <= 20 && one.value.end - one.value.start < 400} />
            ))}
            {all.length > most && (
              <button type="button" className="link" onClick={() => setMost(most + 1_000)}>
                {all.length - most} more
              </button>
            )}
          </div>
        )}
        {shown && <div className="faint">{right}</div>}
      </div>
    );
  }
  return <div>{name}<Leaf kind={node.kind} source={text.slice(node.start, node.end)} /></div>;
}

function Leaf({ kind, source }: { kind: string; source: string }) {
  const [whole, setWhole] = useState(source.length <= LONG);
  return (
    <span className={`leaf-${kind}`}>
      {plain(whole ? source : source.slice(0, LONG))}
      {!whole && (
        <button type="button" className="link" onClick={() => setWhole(true)}>
          … {bytes(source.length - LONG)} more
        </button>
      )}
    </span>
  );
}
