/** How well a text answers what was typed: its beginning first, then a word of it, then letters in order. */

export function rank(text: string, typed: string): number | null {
  const [held, wanted] = [text.toLowerCase(), typed.trim().toLowerCase()];
  if (wanted === "") return 0;
  if (held.startsWith(wanted)) return 400 - held.length;
  const word = held.split(/[^\p{L}\p{N}]+/u).some((one) => one.startsWith(wanted));
  if (word) return 250 - held.length;
  if (held.includes(wanted)) return 150 - held.length;
  let at = 0;
  for (const letter of wanted) {
    at = held.indexOf(letter, at) + 1;
    if (at === 0) return null;
  }
  return 50 - held.length;
}

/** The best first; of equal ones those that come first. */
export function best<T>(all: T[], typed: string, textOf: (one: T) => string, extra: (one: T) => number, most: number): T[] {
  const found: [number, number, T][] = [];
  all.forEach((one, place) => {
    const score = rank(textOf(one), typed);
    if (score !== null) found.push([score + extra(one), place, one]);
  });
  return found
    .sort((a, b) => b[0] - a[0] || a[1] - b[1])
    .slice(0, most)
    .map(([, , one]) => one);
}
