/** Times as people read them. Formatters are made once: one for each cell is what makes tables slow. */

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** "12 s", "4 min", "2 d": one unit, whole, never negative. */
export function span(seconds: number): string {
  const whole = Math.max(0, seconds);
  for (const [size, unit] of UNITS) if (whole >= size) return `${Math.floor(whole / size)} ${unit}`;
  return "0 s";
}

/** "1.24 s", "41.2 ms", "2 min 5 s": three significant figures below a minute. */
export function duration(seconds: number): string {
  const value = Math.max(0, seconds);
  if (value < 0.9995) return `${significant(value * 1000)} ms`;
  if (value < 59.95) return `${significant(value)} s`;
  const whole = Math.round(value);
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3_600)} h`;
}

function significant(value: number): string {
  if (value >= 99.95) return String(Math.round(value));
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** How far an instant is from now: "4 min ago", "in 4 min", "now". */
export function relative(at: string, now: number): string {
  const seconds = (Date.parse(at) - now) / 1000;
  if (seconds >= 1) return `in ${span(seconds)}`;
  return seconds > -1 ? "now" : `${span(-seconds)} ago`;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(key: string, options: Intl.DateTimeFormatOptions, zone?: string): Intl.DateTimeFormat {
  const name = `${key} ${zone ?? ""}`;
  let made = formats.get(name);
  if (made === undefined) {
    made = new Intl.DateTimeFormat(undefined, { ...options, timeZone: zone });
    formats.set(name, made);
  }
  return made;
}

const DAY: Intl.DateTimeFormatOptions = { year: "numeric", month: "short", day: "numeric" };
const CLOCK: Intl.DateTimeFormatOptions = {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
};

/** Date, time to the millisecond and zone. */
export function exact(at: string, zone?: string): string {
  const options = { ...DAY, ...CLOCK, fractionalSecondDigits: 3 as const, timeZoneName: "short" as const };
  return format("exact", options, zone).format(new Date(at));
}

/** Date and time to the minute, for what lies ahead. */
export function calendar(at: string, zone?: string): string {
  const options: Intl.DateTimeFormatOptions = { weekday: "short", ...DAY, ...CLOCK, timeZoneName: "short" };
  return format("calendar", options, zone).format(new Date(at));
}

export function clockTime(at: string, zone?: string): string {
  return format("clock", { ...CLOCK, fractionalSecondDigits: 3 as const }, zone).format(new Date(at));
}

/** A tick of a chart: hours and minutes, and the day where a chart has several. */
export function axisTime(seconds: number, withDay: boolean, zone?: string): string {
  const clock: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return format(withDay ? "axis day" : "axis", withDay ? { weekday: "short", ...clock } : clock, zone).format(new Date(seconds * 1000));
}

/** How far apart regular things are: "10 s", "2 h", "90 s". */
export function interval(seconds: number): string {
  for (const [size, unit] of UNITS) if (seconds >= size && seconds % size === 0) return `${seconds / size} ${unit}`;
  return duration(seconds);
}

export const localZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;
