import { expect, test } from "vitest";
import { createdAfter, matches, readFilter, readWords } from "./filter";

test("words become a filter", () => {
  expect(readFilter(readWords('status:failed,pending queue:mail tag:"two words" mail.send'))).toEqual({
    status: ["failed", "pending"],
    queue: "mail",
    tag: "two words",
    job_type: "mail.send",
  });
  expect(readFilter(readWords("failed type:x priority:5 last:24h"))).toEqual({
    status: ["failed"],
    job_type: "x",
    priority: 5,
    last: "24h",
  });
});

test("an address that makes no sense lists no more than it says", () => {
  expect(readFilter({ status: "asleep", last: "soon", priority: "high", queue: 17 })).toEqual({ queue: "17" });
});

test("a period is counted back from now", () => {
  expect(createdAfter({ last: "24h" }, Date.parse("2026-11-18T03:00:00Z"))).toBe("2026-11-17T03:00:00.000Z");
  expect(createdAfter({}, 0)).toBeUndefined();
});

test("a job that changed no longer matches", () => {
  const job = { status: "succeeded", queue: "a", job_type: "t", tags: ["x"], priority: 0 };
  expect(matches({ status: ["failed"] }, job)).toBe(false);
  expect(matches({ queue: "a", tag: "x" }, job)).toBe(true);
});
