import { expect, test } from "vitest";
import { axisTime, duration, exact, interval, relative, span } from "./time";

const NOW = Date.parse("2026-11-18T03:00:00Z");

test.each([
  [-5, "0 s"],
  [0.4, "0 s"],
  [59.9, "59 s"],
  [60, "1 min"],
  [3_599, "59 min"],
  [7_200, "2 h"],
  [200_000, "2 d"],
])("a span of %d s", (seconds, told) => expect(span(seconds)).toBe(told));

test.each([
  [0, "0.00 ms"],
  [0.0412, "41.2 ms"],
  [0.9999, "1.00 s"],
  [1.2449, "1.24 s"],
  [41.26, "41.3 s"],
  [59.96, "1 min 0 s"],
  [125, "2 min 5 s"],
  [3_725, "1 h 2 min"],
  [90_000, "1 d 1 h"],
])("a duration of %d s", (seconds, told) => expect(duration(seconds)).toBe(told));

test("what a clock that is ahead by less than a second says of the present", () => {
  expect(relative("2026-11-18T03:00:00.500Z", NOW)).toBe("now");
  expect(relative("2026-11-18T03:04:01Z", NOW)).toBe("in 4 min");
  expect(relative("2026-11-18T02:59:48Z", NOW)).toBe("12 s ago");
});

test("an exact time names its zone", () => {
  expect(exact("2026-11-18T03:00:00.123Z", "UTC")).toMatch(/03:00:00.123.*UTC/);
});

test.each([
  [10, "10 s"],
  [90, "90 s"],
  [600, "10 min"],
  [7_200, "2 h"],
  [86_400, "1 d"],
  [0.5, "500 ms"],
])("an interval of %d s is %s", (seconds, told) => expect(interval(seconds)).toBe(told));

test("ticks of a chart are in the zone that was chosen, and name the day where there are several", () => {
  const at = Date.parse("2026-11-18T23:30:00Z") / 1000;
  expect(axisTime(at, false, "Asia/Jakarta")).toBe("06:30");
  expect(axisTime(at, true, "Asia/Jakarta")).toMatch(/Thu.*06:30/);
});
