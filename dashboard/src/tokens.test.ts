import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

type Rgb = [number, number, number];
const text = readFileSync(new URL("./tokens.css", import.meta.url), "utf8");
const pairs = [...text.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)];
const themes = {
  light: Object.fromEntries(pairs.map((one) => [one[1], one[2]])) as Record<string, string>,
  dark: Object.fromEntries(pairs.map((one) => [one[1], one[3]])) as Record<string, string>,
};
const GROUNDS = ["canvas", "surface", "raised", "sunken", "hover", "selected"];
const TEXTS = ["text", "text-2", "text-3", "accent", "neutral", "succeeded", "failed", "warning"];
const HUES = ["accent", "neutral", "succeeded", "failed", "warning"];

const rgb = (hex: string): Rgb => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255) as Rgb;
const linear = (part: number) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
const dot = (row: number[], value: number[]) => row.reduce((sum, part, at) => sum + part * value[at]!, 0);
const luminance = (hex: string) => dot([0.2126, 0.7152, 0.0722], rgb(hex).map(linear));

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

// Machado, Oliveira and Fernandes 2009, whole severity, on linear RGB
const BLIND: Record<string, number[][]> = {
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

function lab(hex: string, kind: string): number[] {
  const seen = BLIND[kind]!.map((row) => Math.min(1, Math.max(0, dot(row, rgb(hex).map(linear)))));
  const xyz = [
    dot([0.4124, 0.3576, 0.1805], seen) / 0.95047,
    dot([0.2126, 0.7152, 0.0722], seen),
    dot([0.0193, 0.1192, 0.9505], seen) / 1.08883,
  ].map((part) => (part > 0.008856 ? Math.cbrt(part) : 7.787 * part + 16 / 116));
  return [116 * xyz[1]! - 16, 500 * (xyz[0]! - xyz[1]!), 200 * (xyz[1]! - xyz[2]!)];
}

for (const [theme, colours] of Object.entries(themes)) {
  test(`${theme}: every text can be read on every ground`, () => {
    for (const ground of GROUNDS)
      for (const word of TEXTS)
        expect(contrast(colours[word]!, colours[ground]!), `${word} on ${ground}`).toBeGreaterThanOrEqual(4.5);
  });
  test(`${theme}: tints, buttons and edges`, () => {
    for (const [word, tint] of [["succeeded", "ok-tint"], ["failed", "bad-tint"], ["warning", "warn-tint"], ["text", "bad-tint"], ["text", "warn-tint"], ["text-2", "bad-tint"], ["text-2", "warn-tint"]] as const)
      expect(contrast(colours[word]!, colours[tint]!), `${word} on ${tint}`).toBeGreaterThanOrEqual(4.5);
    for (const button of ["accent", "failed"])
      expect(contrast(colours["on-accent"]!, colours[button]!), button).toBeGreaterThanOrEqual(4.5);
    for (const ground of GROUNDS)
      expect(contrast(colours["edge"]!, colours[ground]!), `edge on ${ground}`).toBeGreaterThanOrEqual(3);
  });
  test(`${theme}: the five hues stay apart for every kind of eye`, () => {
    for (const kind of Object.keys(BLIND))
      for (const [at, one] of HUES.entries())
        for (const other of HUES.slice(at + 1)) {
          const [a, b] = [lab(colours[one]!, kind), lab(colours[other]!, kind)];
          const distance = Math.hypot(...a.map((part, index) => part - b[index]!));
          expect(distance, `${one} and ${other} under ${kind}`).toBeGreaterThanOrEqual(16);
        }
  });
}

test("the figures are those of the design", () => expect(pairs.length).toBe(20));
