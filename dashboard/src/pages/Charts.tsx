/** How executions went: throughput, success, wait and duration over one period. */
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { api, data, type Schemas } from "../api/client";
import { count } from "../lib/format";
import { duration } from "../lib/time";
import { useGo } from "../shell/scope";

const Chart = lazy(() => import("../ui/Chart"));
type Figures = Schemas["Figures"];

export const PERIODS: Record<string, [string, number, number]> = {
  "15m": ["last 15 min", 900, 60],
  "1h": ["last hour", 3_600, 60],
  "6h": ["last 6 h", 21_600, 300],
  "24h": ["last 24 h", 86_400, 900],
  "7d": ["last 7 days", 604_800, 3_600],
};

export interface Of {
  project?: string;
  queue?: string;
  job_type?: string;
  worker_id?: string;
}

export function useMetrics(of: Of, period: string) {
  const [, last_seconds, step_seconds] = PERIODS[period] ?? PERIODS["1h"]!;
  return useQuery({
    queryKey: ["metrics", of, period],
    queryFn: () => data(api.GET("/api/v1/metrics", { params: { query: { ...of, last_seconds, step_seconds } } })),
    refetchInterval: 15_000,
    placeholderData: (old) => old,
  });
}

const rate = (value: number): string => (value >= 9.95 || value === 0 ? count(Math.round(value)) : value.toFixed(1));
const milliseconds = (value: number): string => (value === 0 ? "0" : duration(value / 1000));

export function Charts({ of, period, page, worker = false }: { of: Of; period: string; page: string; worker?: boolean }) {
  const go = useGo();
  const metrics = useMetrics(of, period);
  const seen = metrics.data;
  if (seen === undefined) return <div className="charts" aria-busy="true" />;
  const times = seen.series.map((one) => Date.parse(one.at) / 1000);
  const values = (pick: (figures: Figures) => number | null | undefined) => seen.series.map((one) => pick(one.figures) ?? null);
  // a step without executions has no percentiles and no rate of success
  const ran = (pick: (figures: Figures) => number | null | undefined) => values((one) => (one.executions === 0 ? null : pick(one)));
  // what arrives is counted when a step is over: the last one has too little yet
  const step = seen.step_seconds ?? 60;
  const arrived = seen.series.map((one, at) => (at === seen.series.length - 1 && Date.parse(one.at) + step * 1000 > Date.parse(seen.until) - 15_000 ? null : (one.figures.arrived * 60) / step));
  const total = seen.totals;
  const judged = total.succeeded + total.failed > 0;
  return (
    <section aria-label="Charts">
      <header className="part">
        <h2>How it went</h2>
        <span className="gap" />
        <select aria-label="Period" value={period} onChange={(event) => go(page, { period: event.target.value })}>
          {Object.entries(PERIODS).map(([key, [label]]) => <option key={key} value={key}>{label}</option>)}
        </select>
      </header>
      <Suspense fallback={<div className="charts" aria-busy="true" />}>
        <div className="charts">
          <Chart title="executions a minute" now={rate(total.throughput_per_minute)} times={times} tell={rate} lines={[{ label: "out", tone: "accent", values: values((one) => one.throughput_per_minute) }, ...(worker ? [] : [{ label: "in", tone: "neutral" as const, dashed: true, values: arrived }])]} />
          <Chart title="succeeded" now={judged ? `${total.success_rate.toFixed(1)} %` : "–"} times={times} most={100} tell={(value) => `${Math.round(value)} %`} lines={[{ label: "succeeded", tone: "succeeded", values: values((one) => (one.succeeded + one.failed === 0 ? null : one.success_rate)) }]} />
          <Chart title="wait" now={total.wait_ms.p95 == null ? "–" : `p95 ${milliseconds(total.wait_ms.p95)}`} times={times} tell={milliseconds} lines={[{ label: "p50", tone: "accent", values: ran((one) => one.wait_ms.p50) }, { label: "p95", tone: "accent", dashed: true, values: ran((one) => one.wait_ms.p95) }]} />
          <Chart title="duration" now={total.duration_ms.p95 == null ? "–" : `p95 ${milliseconds(total.duration_ms.p95)}`} times={times} tell={milliseconds} lines={[{ label: "p50", tone: "accent", values: ran((one) => one.duration_ms.p50) }, { label: "p95", tone: "accent", dashed: true, values: ran((one) => one.duration_ms.p95) }]} />
          {worker && <Chart title="cpu" now={total.cpu_percent.avg == null ? "–" : `${Math.round(total.cpu_percent.avg)} %`} times={times} tell={(value) => `${Math.round(value)} %`} lines={[{ label: "cpu", tone: "accent", values: values((one) => one.cpu_percent.max) }]} />}
          {worker && <Chart title="memory" now={total.memory_bytes.max == null ? "–" : `${Math.round(total.memory_bytes.max / 1048576)} MB`} times={times} tell={(value) => `${Math.round(value / 1048576)} MB`} lines={[{ label: "memory", tone: "accent", values: values((one) => one.memory_bytes.max) }]} />}
        </div>
      </Suspense>
    </section>
  );
}
