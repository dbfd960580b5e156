import { expect, test } from "vitest";
import { fieldSource, JsonError, joinJson, parseJson, pretty } from "./json";

const BIG = '{"id": 9007199254740993, "rate": 0.10000000000000000001, "big": 1e400, "list": [1, {"a": null}], "text": "</script>\\u0000"}';

test("numbers keep every digit", () => {
  expect(pretty(BIG)).toContain('"id": 9007199254740993');
  expect(pretty(BIG)).toContain("0.10000000000000000001");
  expect(pretty(BIG)).toContain("1e400");
});

test("a field is a slice of the text", () => {
  const answer = `{"id":"x","payload":${BIG},"result":null}`;
  expect(fieldSource(answer, "payload")).toBe(BIG);
  expect(fieldSource(answer, "result")).toBe("null");
  expect(fieldSource(answer, "error")).toBeUndefined();
});

test("what is made pretty twice stays as it is, and means the same", () => {
  const once = pretty('{"b":[],"a":{},"c":[1,2,{"d":"e\\n"}]}');
  expect(pretty(once)).toBe(once);
  expect(JSON.parse(once)).toEqual({ b: [], a: {}, c: [1, 2, { d: "e\n" }] });
});

test.each(["", "{", "[1,]", '{"a" 1}', "01", "1 2", "nul", '"\n"', "{a: 1}", "'x'"])("%j is refused", (text) => {
  expect(() => parseJson(text)).toThrow(JsonError);
});

test("an error tells its place", () => {
  expect(() => parseJson('{\n  "a": 1,\n  b\n}')).toThrow("line 3, column 3");
});

test("what is nested too deeply is an error and no crash", () => {
  expect(() => parseJson("[".repeat(100_000))).toThrow("nested too deeply");
});

test("a body of which a part is JSON already", () => {
  expect(joinJson({ queue: "a", priority: undefined }, { payload: "9007199254740993" })).toBe('{"queue":"a","payload":9007199254740993}');
});
