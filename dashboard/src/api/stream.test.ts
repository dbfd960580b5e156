import { expect, test } from "vitest";
import { Parser } from "./stream";

const WIRE = ': open\r\nretry: 1000\r\n\r\nid: 7\r\nevent: job.failed\r\ndata: {"topic":"job.failed"}\r\n\r\n: quiet\r\nid: 9\r\n\r\n';

test("messages come out whole wherever the network cuts them", () => {
  const whole = new Parser().push(WIRE).filter((one) => one.id !== undefined);
  expect(whole).toEqual([{ id: "7", data: '{"topic":"job.failed"}' }, { id: "9" }]);
  for (let cut = 0; cut <= WIRE.length; cut += 1) {
    const parser = new Parser();
    const found = [...parser.push(WIRE.slice(0, cut)), ...parser.push(WIRE.slice(cut))];
    expect(found.filter((one) => one.id !== undefined), `cut at ${cut}`).toEqual(whole);
  }
});
