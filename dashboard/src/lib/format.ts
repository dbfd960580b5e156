const figures = new Intl.NumberFormat();

/** A count; unknown is a dash, never 0. */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : figures.format(value);
}

export function counted(value: number, one: string, many = `${one}s`): string {
  return `${figures.format(value)} ${value === 1 ? one : many}`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 99.95 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A UUIDv7 begins with its time, so neighbours begin alike: the end tells them apart. That of a job
 * ends with the room for its epochs, six zeros, which tell nothing. */
export function tail(id: string): string {
  const digits = id.replace(/-/g, "");
  return `…${(digits.endsWith("000000") ? digits.slice(0, -6) : digits).slice(-8)}`;
}

// Signs that turn the order of what follows around: a name must not show as another.
const TURNING = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g;
export const plain = (text: string): string => text.replace(TURNING, "�");

export const isId = (text: string): boolean =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text.trim());
