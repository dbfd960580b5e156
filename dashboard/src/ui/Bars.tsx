/** Counts of equal spans, the last one now; for a cell of a table. */
export function Bars({ values, label, wide = false }: { values: readonly number[]; label: string; wide?: boolean }) {
  const most = Math.max(1, ...values);
  const [width, height] = wide ? [20, 64] : [4, 18];
  return (
    <svg className={wide ? "bars large" : "bars"} viewBox={`0 0 ${values.length * width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${values.join(", ")}`}>
      {values.map((value, at) => {
        const tall = value === 0 ? 1 : Math.max(2, (value / most) * height);
        return <rect key={at} x={at * width} y={height - tall} width={width - (wide ? 3 : 1)} height={tall} className={value === 0 ? "none" : undefined}><title>{value}</title></rect>;
      })}
    </svg>
  );
}
