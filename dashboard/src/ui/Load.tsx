import { count } from "../lib/format";

/** How many of so many are taken. */
export function Load({ active, max }: { active: number; max: number }) {
  return (
    <span className="load">
      <meter min={0} max={Math.max(1, max)} value={Math.min(active, max)} aria-label={`${active} of ${max} slots taken`} />
      <span className="number">{count(active)}/{count(max)}</span>
    </span>
  );
}
