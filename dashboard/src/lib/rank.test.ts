import { expect, test } from "vitest";
import { best, rank } from "./rank";

test("the beginning counts for more than a word, a word for more than letters in order", () => {
  const order = ["billing", "Pause billing", "rebilling", "b-i-l-queue-l"].map((one) => rank(one, "bill"));
  expect(order.every((one) => one !== null)).toBe(true);
  expect([...order].sort((a, b) => b! - a!)).toEqual(order);
  expect(rank("queues", "x")).toBeNull();
  expect(rank("anything", " ")).toBe(0);
});

test("of what fits equally well the first stays first, and what was used lately comes before", () => {
  const all = ["mail one", "mail two", "other"];
  expect(best(all, "mail", (one) => one, () => 0, 5)).toEqual(["mail one", "mail two"]);
  expect(best(all, "mail", (one) => one, (one) => (one === "mail two" ? 100 : 0), 1)).toEqual(["mail two"]);
});
