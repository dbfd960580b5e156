/** A line without axes, for a cell of a table. */
export function Sparkline({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return <span className="faint">–</span>;
  const most = Math.max(1, ...values);
  const points = values.map((value, at) => `${((at * 78) / (values.length - 1) + 1).toFixed(1)},${(17 - (value / most) * 15).toFixed(1)}`).join(" ");
  return (
    <svg className="spark" viewBox="0 0 80 18" role="img" aria-label={label}>
      <polyline points={points} />
    </svg>
  );
}
