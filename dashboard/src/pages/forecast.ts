/** What will become of a queue if the next minutes are like the last ones, in a few words. */
import { api, data, type Schemas } from "../api/client";
import { count } from "../lib/format";
import { span } from "../lib/time";

export type Forecast = Schemas["Forecast"];

export const forecastQuery = (queue: string) => ({
  queryKey: ["forecast", queue],
  queryFn: () => data(api.GET("/api/v1/queues/{queue}/forecast", { params: { path: { queue } } })),
  refetchInterval: 15_000,
  staleTime: 10_000,
});

export const isBad = (forecast: Forecast): boolean => forecast.outlook === "growing";

export function outlookOf(forecast: Forecast): string {
  switch (forecast.outlook) {
    case "growing":
      return `only grows, +${rate(forecast.arrived_per_minute - forecast.ended_per_minute)} a minute`;
    case "draining":
      return forecast.drain ? `empty in ${range(forecast.drain)}` : "gets shorter";
    case "steady":
      return "keeps its length";
    case "paused":
      return forecast.drain ? `paused; empty ${range(forecast.drain)} after it is resumed` : "paused";
    case "empty":
      return "empty";
    default:
      return "too little ran to tell";
  }
}

/** How long a job that comes now would wait. */
export const waitOf = (forecast: Forecast): string | null => (forecast.wait ? range(forecast.wait) : null);

const rate = (value: number): string => (value >= 9.95 ? count(Math.round(value)) : value.toFixed(1));

function range(of: { likely: number; low: number; high: number | null }): string {
  const [low, high] = [span(of.low), of.high === null ? null : span(of.high)];
  if (high === null) return `${low} or more`;
  return low === high ? low : `${low} to ${high}`;
}
