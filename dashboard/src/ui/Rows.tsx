/** A long table of which only the rows on screen are made; the page itself scrolls. */
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";

const OVERSCAN = 12;
const PHONE = "(max-width: 719px)";

interface RowsProps<T> {
  items: T[];
  head: ReactNode;
  columns: number;
  label: string;
  render: (item: T, at: number) => ReactNode;
  onSeen?: (first: number, last: number) => void;
  className?: string;
}

export function Rows<T>({ items, head, columns, label, render, onSeen, className }: RowsProps<T>) {
  const table = useRef<HTMLTableElement>(null);
  const [range, setRange] = useState<[number, number]>([0, 60]);
  const height = useRowHeight();
  useLayoutEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      const top = table.current?.tBodies[0]?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / height) - OVERSCAN);
      const last = Math.min(items.length, Math.ceil((window.innerHeight - top) / height) + OVERSCAN);
      setRange((old) => (old[0] === first && old[1] === last ? old : [first, Math.max(last, first)]));
    };
    const ask = () => (frame ||= requestAnimationFrame(measure));
    measure();
    window.addEventListener("scroll", ask, { passive: true });
    window.addEventListener("resize", ask);
    return () => {
      cancelAnimationFrame(frame);
      window.removeEventListener("scroll", ask);
      window.removeEventListener("resize", ask);
    };
  }, [items.length, height]);
  const first = Math.min(range[0], Math.max(0, items.length - 1));
  const last = Math.min(range[1], items.length);
  useEffect(() => onSeen?.(first, last), [first, last, items]);
  return (
    <table ref={table} className={`rows ${className ?? ""}`} aria-label={label} aria-rowcount={items.length}>
      <thead>{head}</thead>
      <tbody>
        {first > 0 && <tr aria-hidden="true" className="spacer"><td colSpan={columns} ref={(cell) => { if (cell) cell.style.height = `${first * height}px`; }} /></tr>}
        {items.slice(first, last).map((item, at) => render(item, first + at))}
        {last < items.length && <tr aria-hidden="true" className="spacer"><td colSpan={columns} ref={(cell) => { if (cell) cell.style.height = `${(items.length - last) * height}px`; }} /></tr>}
      </tbody>
    </table>
  );
}

function useRowHeight(): number {
  const [phone, setPhone] = useState(() => matchMedia(PHONE).matches);
  useEffect(() => {
    const query = matchMedia(PHONE);
    const turn = () => setPhone(query.matches);
    query.addEventListener("change", turn);
    return () => query.removeEventListener("change", turn);
  }, []);
  return phone ? 56 : 33;
}
