/** A small chart over time: lines that share one cursor, an axis that starts at zero, a table twin. */
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { usePreferences } from "../lib/preferences";
import { axisTime } from "../lib/time";

export interface Line {
  label: string;
  tone: "accent" | "succeeded" | "failed" | "warning" | "neutral";
  dashed?: boolean;
  values: (number | null)[];
}

interface ChartProps {
  title: string;
  /** what the newest point says, in large */
  now: string;
  times: number[];
  lines: Line[];
  tell: (value: number) => string;
  most?: number;
  /** each value holds until the next */
  steps?: boolean;
}

const HEIGHT = 112;
/** Values without neighbours, which no line shows. */
const lonely = (values: (number | null)[]): number[] => values.flatMap((one, at) => (one != null && values[at - 1] == null && values[at + 1] == null ? [at] : []));
const span = (times: number[]): number => (times.at(-1) ?? 0) - (times[0] ?? 0);

/** What a token is just now; light-dark() has to be resolved by an element. */
function colour(name: string): string {
  const probe = document.createElement("span");
  probe.className = "away";
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export default function Chart({ title, now, times, lines, tell, most, steps = false }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [asTable, setAsTable] = useState(false);
  const told = useRef<HTMLSpanElement>(null);
  const { theme, zone: chosen } = usePreferences();
  const zone = chosen || undefined;
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const turn = () => setDark(query.matches);
    query.addEventListener("change", turn);
    return () => query.removeEventListener("change", turn);
  }, []);
  const labels = lines.map((one) => one.label).join();
  const data = [times, ...lines.map((one) => one.values)] as uPlot.AlignedData;
  // what the cursor is on is written past React: it moves with the mouse on every chart of the page
  const point = useRef((_: number | null) => undefined as void);
  point.current = (row) => {
    if (told.current === null) return;
    const days = span(times) > 2 * 86_400;
    told.current.textContent = row === null || times[row] === undefined ? now : `${axisTime(times[row]!, days, zone)} · ${lines.map((one) => (one.values[row] == null ? "–" : tell(one.values[row]!))).join(" · ")}`;
  };
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const [text, line] = [colour("text-3"), colour("line")];
    const made = new uPlot(
      {
        width: Math.max(80, element.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        tzDate: (at) => (zone === undefined ? new Date(at * 1000) : uPlot.tzDate(new Date(at * 1000), zone)),
        hooks: { setCursor: [(made) => point.current(made.cursor.idx ?? null)] },
        cursor: { sync: { key: "page" }, y: false, points: { size: 5 } },
        scales: { y: { range: (_, __, high) => [0, most ?? (high > 0 ? high * 1.1 : 1)] } },
        axes: [
          { stroke: text, grid: { show: false }, ticks: { show: false }, size: 20, font: "11px system-ui", space: 70, values: (made, all) => all.map((one) => axisTime(one, span(made.data[0] as number[]) > 2 * 86_400, zone)) },
          { stroke: text, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 52, font: "11px system-ui", space: 34, values: (_, all) => all.map((one) => (one === null ? "" : tell(one))) },
        ],
        series: [{}, ...lines.map((one) => ({ label: one.label, stroke: colour(one.tone), width: 1.5, dash: one.dashed ? [4, 3] : undefined, points: { show: true, size: 4, filter: (made: uPlot, at: number) => lonely(made.data[at] as (number | null)[]) }, spanGaps: false, paths: steps ? uPlot.paths.stepped!({ align: 1 }) : undefined }))],
      },
      data,
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => requestAnimationFrame(() => element.clientWidth > 0 && made.setSize({ width: element.clientWidth, height: HEIGHT })));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [labels, theme, dark, asTable, zone]);
  useEffect(() => {
    plot.current?.setData(data);
    point.current(null);
  }, [times, lines]);
  return (
    <figure className="chart" aria-label={`${title}: ${now}`}>
      <figcaption>
        <span>{title}</span> <b ref={told}>{now}</b>
        <span className="gap" />
        {lines.length > 1 && lines.map((one) => <span key={one.label} className={`key tone-${one.tone}`}>{one.dashed ? "┄" : "─"} {one.label}</span>)}
        <button type="button" className="link small" onClick={() => setAsTable(!asTable)}>{asTable ? "chart" : "table"}</button>
      </figcaption>
      {asTable ? (
        <div className="twin">
          <table className="rows">
            <thead><tr><th>time</th>{lines.map((one) => <th key={one.label} className="number">{one.label}</th>)}</tr></thead>
            <tbody>{times.map((at, row) => <tr key={at}><td>{axisTime(at, span(times) > 2 * 86_400, zone)}</td>{lines.map((one) => <td key={one.label} className="number">{one.values[row] == null ? "–" : tell(one.values[row]!)}</td>)}</tr>)}</tbody>
          </table>
        </div>
      ) : (
        <div ref={box} className="plot" />
      )}
    </figure>
  );
}
